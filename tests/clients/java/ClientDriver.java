// Carries out the calls of tests/clients/README.md with Apache Kafka's own client library. One
// source for all versions: what only some have is looked up by name.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.*;

public class ClientDriver {
    static final long PATIENCE_MS = 30000;
    static final String NULL = "~";

    static class Unsupported extends Exception {}

    private final List<String> rows = new ArrayList<>();
    private String bootstrap;
    private Admin admin;
    private KafkaConsumer<byte[], byte[]> consumer;
    private TopicPartition assigned;
    private final Deque<ConsumerRecord<byte[], byte[]>> fetched = new ArrayDeque<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out =
            new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        ClientDriver driver = new ClientDriver();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String last = driver.answer(line.split("\t", -1));
            for (String row : driver.rows) out.write("row\t" + row + "\n");
            out.write(last + "\n");
            out.flush();
        }
        if (driver.consumer != null) driver.consumer.close();
        if (driver.admin != null) driver.admin.close();
    }

    private String answer(String[] call) {
        rows.clear();
        try {
            carryOut(call);
            return "ok";
        } catch (Unsupported unsupported) {
            rows.clear();
            return "unsupported";
        } catch (Throwable thrown) {
            rows.clear();
            Throwable cause = thrown;
            while ((cause instanceof ExecutionException
                    || cause instanceof InvocationTargetException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            // A consumer's own exceptions stand for codes of the broker.
            Errors error = cause instanceof OffsetOutOfRangeException
                ? Errors.OFFSET_OUT_OF_RANGE : Errors.forException(cause);
            String code = error == Errors.UNKNOWN_SERVER_ERROR
                ? cause.getClass().getSimpleName() : String.valueOf(error.code());
            return "error\t" + code + "\t" + cause.toString().replaceAll("\\s+", " ");
        }
    }

    private void row(Object... fields) {
        rows.add(Arrays.stream(fields).map(String::valueOf).collect(Collectors.joining("\t")));
    }

    private static String bytes(byte[] data) {
        return data == null ? NULL : Base64.getEncoder().encodeToString(data);
    }

    private static byte[] bytes(String field) {
        return field.equals(NULL) ? null : Base64.getDecoder().decode(field);
    }

    private static String ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::idString).collect(Collectors.joining(","));
    }

    private static Properties properties(Object... keysAndValues) {
        Properties all = new Properties();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            all.put(keysAndValues[i], keysAndValues[i + 1]);
        }
        return all;
    }

    private void carryOut(String[] call) throws Exception {
        switch (call[0]) {
            case "hello" -> hello();
            case "connect" -> connect(call[1]);
            case "cluster" -> cluster();
            case "list_topics" -> admin.listTopics().names().get().forEach(name -> row(name));
            case "create_topic" -> createTopic(call);
            case "delete_topic" -> admin.deleteTopics(List.of(call[1])).all().get();
            case "describe_topic" -> describeTopic(call[1], new DescribeTopicsOptions());
            case "describe_topic_pages" -> describeTopic(call[1], new DescribeTopicsOptions()
                .partitionSizeLimitPerResponse(Integer.parseInt(call[2])));
            case "describe_configs" -> describeConfigs(call[1], call[2]);
            case "alter_configs" -> alterConfigs(call);
            case "replace_configs" -> replaceConfigs(call);
            case "create_partitions" -> admin.createPartitions(
                Map.of(call[1], NewPartitions.increaseTo(Integer.parseInt(call[2])))).all().get();
            case "delete_records" -> deleteRecords(call);
            case "describe_log_dirs" -> describeLogDirs(call[1]);
            case "list_config_resources" -> listConfigResources();
            case "elect_leaders" -> electLeaders(partition(call));
            case "describe_producers" -> describeProducers(partition(call));
            case "offset" -> offset(call);
            case "produce" -> produce(call);
            case "transaction" -> transaction(call);
            case "open" -> open(call);
            case "seek" -> seek(call[1]);
            case "read" -> read(Integer.parseInt(call[1]));
            case "poll" -> poll(Long.parseLong(call[1]));
            case "close" -> close();
            default -> throw new Unsupported();
        }
    }

    private void hello() throws Exception {
        Properties about = new Properties();
        about.load(Admin.class.getResourceAsStream("/kafka/kafka-version.properties"));
        row("kafka-clients", about.getProperty("version"));
    }

    private static TopicPartition partition(String[] call) {
        return new TopicPartition(call[1], Integer.parseInt(call[2]));
    }

    private void connect(String servers) {
        if (admin != null) admin.close();
        bootstrap = servers;
        admin = Admin.create(properties("bootstrap.servers", bootstrap));
    }

    private void cluster() throws Exception {
        DescribeClusterResult result = admin.describeCluster();
        row(result.clusterId().get(), result.controller().get().id());
        for (Node node : result.nodes().get()) row(node.id(), node.host(), node.port());
    }

    private static Map<String, String> settings(String[] call, int from) {
        Map<String, String> all = new HashMap<>();
        for (int i = from; i < call.length; ++i) {
            String[] pair = call[i].split("=", 2);
            all.put(pair[0], pair[1]);
        }
        return all;
    }

    private void createTopic(String[] call) throws Exception {
        NewTopic topic =
            new NewTopic(call[1], Integer.parseInt(call[2]), Short.parseShort(call[3]));
        admin.createTopics(List.of(topic.configs(settings(call, 4)))).all().get();
    }

    private void describeTopic(String name, DescribeTopicsOptions options) throws Exception {
        TopicDescription topic =
            admin.describeTopics(List.of(name), options).allTopicNames().get().get(name);
        for (TopicPartitionInfo info : topic.partitions()) {
            row(info.partition(), info.leader().id(), ids(info.replicas()), ids(info.isr()));
        }
    }

    private void describeConfigs(String type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(
            type.equals("topic") ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER, name);
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        for (ConfigEntry entry : config.entries()) {
            byte[] value = entry.value() == null
                ? null : entry.value().getBytes(StandardCharsets.UTF_8);
            int source = switch (entry.source()) {
                case DYNAMIC_TOPIC_CONFIG -> 1;
                case DYNAMIC_BROKER_CONFIG -> 2;
                case DYNAMIC_DEFAULT_BROKER_CONFIG -> 3;
                case STATIC_BROKER_CONFIG -> 4;
                case DEFAULT_CONFIG -> 5;
                default -> 0;
            };
            row(entry.name(), bytes(value), source, entry.isReadOnly() ? 1 : 0);
        }
    }

    private void alterConfigs(String[] call) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        for (int i = 2; i < call.length; ++i) {
            String[] pair = call[i].substring(1).split("=", 2);
            boolean set = call[i].startsWith("+");
            operations.add(new AlterConfigOp(
                new ConfigEntry(pair[0], set ? pair[1] : null),
                set ? AlterConfigOp.OpType.SET : AlterConfigOp.OpType.DELETE));
        }
        admin.incrementalAlterConfigs(
            Map.of(new ConfigResource(ConfigResource.Type.TOPIC, call[1]), operations)).all().get();
    }

    // Until 3.9.
    private void replaceConfigs(String[] call) throws Exception {
        List<ConfigEntry> entries = new ArrayList<>();
        settings(call, 2).forEach((key, value) -> entries.add(new ConfigEntry(key, value)));
        Object result = optional("alterConfigs", Map.class).invoke(admin, Map.of(
            new ConfigResource(ConfigResource.Type.TOPIC, call[1]), new Config(entries)));
        ((AlterConfigsResult) result).all().get();
    }

    // From 4.1 on.
    private void listConfigResources() throws Exception {
        Object result = optional("listConfigResources").invoke(admin);
        Object future = result.getClass().getMethod("all").invoke(result);
        for (Object found : (Collection<?>) ((KafkaFuture<?>) future).get()) {
            ConfigResource resource = (ConfigResource) found;
            if (resource.type() == ConfigResource.Type.TOPIC) row(resource.name());
        }
    }

    private static Method optional(String name, Class<?>... types) throws Unsupported {
        try {
            return Admin.class.getMethod(name, types);
        } catch (NoSuchMethodException missing) {
            throw new Unsupported();
        }
    }

    private void deleteRecords(String[] call) throws Exception {
        TopicPartition partition = partition(call);
        row(admin.deleteRecords(
                Map.of(partition, RecordsToDelete.beforeOffset(Long.parseLong(call[3]))))
            .lowWatermarks().get(partition).get().lowWatermark());
    }

    private void describeLogDirs(String topic) throws Exception {
        List<Integer> brokers =
            admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        for (var byPath : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (LogDirDescription folder : byPath.values()) {
                folder.replicaInfos().forEach((partition, info) -> {
                    if (partition.topic().equals(topic)) row(partition.partition(), info.size());
                });
            }
        }
    }

    private void electLeaders(TopicPartition partition) throws Exception {
        Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition))
            .partitions().get().get(partition);
        if (error.isPresent()) throw new ExecutionException(error.get());
    }

    private void describeProducers(TopicPartition partition) throws Exception {
        var state = admin.describeProducers(List.of(partition)).partitionResult(partition).get();
        for (ProducerState producer : state.activeProducers()) {
            row(producer.producerId(), producer.producerEpoch(), producer.lastSequence());
        }
    }

    private void offset(String[] call) throws Exception {
        TopicPartition partition = partition(call);
        OffsetSpec which = switch (call[3]) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            default -> OffsetSpec.forTimestamp(Long.parseLong(call[3]));
        };
        IsolationLevel isolation = IsolationLevel.valueOf(call[4].toUpperCase(Locale.ROOT));
        row(admin.listOffsets(Map.of(partition, which), new ListOffsetsOptions(isolation))
            .partitionResult(partition).get().offset());
    }

    private static ProducerRecord<byte[], byte[]> recordOf(TopicPartition partition, String field) {
        String[] parts = field.split(";", -1);
        List<Header> headers = new ArrayList<>();
        if (!parts[3].isEmpty()) {
            for (String header : parts[3].split(",")) {
                String[] pair = header.split(":", -1);
                headers.add(new RecordHeader(
                    new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
            }
        }
        Long timestamp = parts[0].equals(NULL) ? null : Long.valueOf(parts[0]);
        return new ProducerRecord<>(partition.topic(), partition.partition(), timestamp,
                                    bytes(parts[1]), bytes(parts[2]), headers);
    }

    private KafkaProducer<byte[], byte[]> producer(Object... more) {
        Properties all = properties(more);
        all.put("bootstrap.servers", bootstrap);
        all.put("max.request.size", 8 << 20);
        all.put("linger.ms", 20);
        all.put("max.block.ms", 5000);
        all.put("delivery.timeout.ms", (int) PATIENCE_MS);
        all.put("request.timeout.ms", 20000);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void produce(String[] call) throws Exception {
        Map<String, String> options = settings(call[3].split(","), 0);
        boolean idempotent = options.get("idempotent").equals("1");
        try (var producer = producer("acks", options.get("acks"),
                                     "compression.type", options.get("codec"),
                                     "enable.idempotence", idempotent)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 4; i < call.length; ++i) {
                sent.add(producer.send(recordOf(partition(call), call[i])));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) row(one.get().offset());
        }
    }

    private void transaction(String[] call) throws Exception {
        try (var producer = producer("transactional.id", call[3])) {
            producer.initTransactions();
            producer.beginTransaction();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 5; i < call.length; ++i) {
                sent.add(producer.send(recordOf(partition(call), call[i])));
            }
            producer.flush();  // an abort would drop what was not sent yet
            for (Future<RecordMetadata> one : sent) one.get();
            if (call[4].equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    private void open(String[] call) {
        close();
        consumer = new KafkaConsumer<>(
            properties("bootstrap.servers", bootstrap, "isolation.level", call[3],
                       "auto.offset.reset", call[4], "enable.auto.commit", false),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        assigned = partition(call);
        consumer.assign(List.of(assigned));
    }

    private void seek(String where) {
        fetched.clear();
        switch (where) {
            case "begin" -> consumer.seekToBeginning(List.of(assigned));
            case "end" -> consumer.seekToEnd(List.of(assigned));
            default -> consumer.seek(assigned, Long.parseLong(where));
        }
    }

    private void show(ConsumerRecord<byte[], byte[]> found) {
        List<String> headers = new ArrayList<>();
        for (Header header : found.headers()) {
            headers.add(bytes(header.key().getBytes(StandardCharsets.UTF_8)) + ":"
                        + bytes(header.value()));
        }
        row(found.offset(), found.timestampType().id,
            found.timestamp() + ";" + bytes(found.key()) + ";" + bytes(found.value()) + ";"
            + String.join(",", headers));
    }

    private void read(int count) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (rows.size() < count) {
            while (!fetched.isEmpty() && rows.size() < count) show(fetched.poll());
            if (rows.size() == count) return;
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException(rows.size() + " of " + count + " records came");
            }
            consumer.poll(Duration.ofMillis(200)).forEach(fetched::add);
        }
    }

    private void poll(long milliseconds) {
        consumer.poll(Duration.ofMillis(milliseconds)).forEach(fetched::add);
        while (!fetched.isEmpty()) show(fetched.poll());
    }

    private void close() {
        fetched.clear();
        if (consumer != null) consumer.close();
        consumer = null;
    }
}

// Carries out the calls of tests/clients/README.md with franz-go. One source for all versions: what
// only some have is looked up by name.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience = 30 * time.Second
	null     = "~"
)

var errUnsupported = errors.New("unsupported")

type driver struct {
	rows      []string
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
	// The consumer is made at the first seek, which says where it begins.
	consumer    *kgo.Client
	consumerOpt []kgo.Opt
	topic       string
	partition   int32
	fetched     []*kgo.Record
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	d := &driver{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		d.rows = nil
		last := answer(d.carryOut(strings.Split(strings.TrimSuffix(line, "\n"), "\t")))
		if last == "ok" {
			for _, row := range d.rows {
				fmt.Fprintf(out, "row\t%s\n", row)
			}
		}
		fmt.Fprintln(out, last)
		out.Flush()
	}
}

func answer(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, errUnsupported) {
		return "unsupported"
	}
	code := "client"
	var fromBroker *kerr.Error
	if errors.As(err, &fromBroker) {
		code = strconv.Itoa(int(fromBroker.Code))
	}
	return "error\t" + code + "\t" + strings.Join(strings.Fields(err.Error()), " ")
}

func (d *driver) row(fields ...any) {
	texts := make([]string, len(fields))
	for i, field := range fields {
		texts[i] = fmt.Sprint(field)
	}
	d.rows = append(d.rows, strings.Join(texts, "\t"))
}

func encode(data []byte) string {
	if data == nil {
		return null
	}
	return base64.StdEncoding.EncodeToString(data)
}

func decode(field string) ([]byte, error) {
	if field == null {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(field)
	if data == nil {
		data = []byte{}
	}
	return data, err
}

func number[T int16 | int32 | int64](text string) T {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // of the runner, which sends numbers here
	}
	return T(value)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) carryOut(call []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch call[0] {
	case "hello":
		d.row("franz-go", libraryVersion())
		return nil
	case "connect":
		return d.connect(call[1])
	case "cluster":
		return d.cluster(ctx)
	case "list_topics":
		topics, err := d.admin.ListTopics(ctx)
		for name, detail := range topics {
			if detail.Err == nil { // it also lists what was asked for before and is not there
				d.row(name)
			}
		}
		return err
	case "create_topic":
		configs := map[string]*string{}
		for key, value := range settings(call[4:]) {
			value := value
			configs[key] = &value
		}
		made, err := d.admin.CreateTopic(ctx, number[int32](call[2]), number[int16](call[3]), configs,
			call[1])
		return first(err, made.Err)
	case "delete_topic":
		gone, err := d.admin.DeleteTopic(ctx, call[1])
		return first(err, gone.Err)
	case "describe_topic":
		return d.describeTopic(ctx, call[1])
	case "describe_configs":
		return d.describeConfigs(ctx, call[1], call[2])
	case "alter_configs":
		return d.alterConfigs(ctx, call[1], call[2:])
	case "replace_configs":
		return d.replaceConfigs(ctx, call[1], call[2:])
	case "create_partitions":
		made, err := d.admin.UpdatePartitions(ctx, int(number[int32](call[2])), call[1])
		if err != nil {
			return err
		}
		return made[call[1]].Err
	case "delete_records":
		return d.deleteRecords(ctx, call[1], number[int32](call[2]), number[int64](call[3]))
	case "describe_log_dirs":
		return d.describeLogDirs(ctx, call[1])
	case "list_config_resources":
		return d.listConfigResources(ctx)
	case "elect_leaders":
		return d.electLeaders(ctx, call[1], number[int32](call[2]))
	case "describe_producers":
		return d.describeProducers(ctx, call[1], number[int32](call[2]))
	case "offset":
		return d.offset(ctx, call[1], number[int32](call[2]), call[3], call[4])
	case "produce":
		return d.produce(ctx, call)
	case "transaction":
		return d.transaction(ctx, call)
	case "open":
		return d.open(call)
	case "seek":
		return d.seek(call[1])
	case "read":
		return d.read(ctx, int(number[int32](call[1])))
	case "poll":
		return d.poll(time.Duration(number[int64](call[1])) * time.Millisecond)
	case "close":
		d.closeConsumer()
		return nil
	}
	return errUnsupported
}

func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return module.Version + " " + info.GoVersion
			}
		}
	}
	return "of no known version"
}

func settings(fields []string) map[string]string {
	all := map[string]string{}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		all[key] = value
	}
	return all
}

func topicPartition(topic string, partition int32) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	return set
}

func (d *driver) connect(bootstrap string) error {
	if d.client != nil {
		d.client.Close()
	}
	d.bootstrap = bootstrap
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	d.client, d.admin = client, kadm.NewClient(client)
	return nil
}

func (d *driver) cluster(ctx context.Context) error {
	found, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	d.row(found.Cluster, found.Controller)
	for _, broker := range found.Brokers {
		d.row(broker.NodeID, broker.Host, broker.Port)
	}
	return nil
}

func ids(nodes []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(nodes), "[]"), " ", ",")
}

func (d *driver) describeTopic(ctx context.Context, topic string) error {
	found, err := d.admin.Metadata(ctx, topic)
	if err != nil {
		return err
	}
	detail := found.Topics[topic]
	for _, partition := range detail.Partitions.Sorted() {
		d.row(partition.Partition, partition.Leader, ids(partition.Replicas), ids(partition.ISR))
	}
	return detail.Err
}

func (d *driver) describeConfigs(ctx context.Context, kind, name string) error {
	var found kadm.ResourceConfigs
	var err error
	if kind == "topic" {
		found, err = d.admin.DescribeTopicConfigs(ctx, name)
	} else {
		found, err = d.admin.DescribeBrokerConfigs(ctx, number[int32](name))
	}
	if err != nil {
		return err
	}
	resource, err := found.On(name, nil)
	if err = first(err, resource.Err); err != nil {
		return err
	}
	for _, config := range resource.Configs {
		var value []byte
		if config.Value != nil {
			value = []byte(*config.Value)
		}
		d.row(config.Key, encode(value), int(config.Source), 0) // it does not show "read only"
	}
	return nil
}

func (d *driver) alterConfigs(ctx context.Context, topic string, changes []string) error {
	var all []kadm.AlterConfig
	for _, change := range changes {
		key, value, _ := strings.Cut(change[1:], "=")
		one := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key}
		if change[0] == '+' {
			one.Op, one.Value = kadm.SetConfig, &value
		}
		all = append(all, one)
	}
	altered, err := d.admin.AlterTopicConfigs(ctx, all, topic)
	return firstAltered(altered, err)
}

func (d *driver) replaceConfigs(ctx context.Context, topic string, wanted []string) error {
	var all []kadm.AlterConfig
	for key, value := range settings(wanted) {
		value := value
		all = append(all, kadm.AlterConfig{Name: key, Value: &value})
	}
	altered, err := d.admin.AlterTopicConfigsState(ctx, all, topic)
	return firstAltered(altered, err)
}

func firstAltered(altered kadm.AlterConfigsResponses, err error) error {
	for _, one := range altered {
		err = first(err, one.Err)
	}
	return err
}

func (d *driver) deleteRecords(ctx context.Context, topic string, partition int32,
	offset int64) error {
	before := kadm.Offsets{}
	before.AddOffset(topic, partition, offset, -1)
	found, err := d.admin.DeleteRecords(ctx, before)
	if err != nil {
		return err
	}
	answer, ok := found.Lookup(topic, partition)
	if !ok {
		return errors.New("no answer for the partition")
	}
	d.row(answer.LowWatermark)
	return answer.Err
}

func (d *driver) describeLogDirs(ctx context.Context, topic string) error {
	brokers, err := d.admin.DescribeAllLogDirs(ctx, nil)
	for _, folders := range brokers {
		for _, folder := range folders {
			err = first(err, folder.Err)
			for _, partition := range folder.Topics[topic] {
				d.row(partition.Partition, partition.Size)
			}
		}
	}
	return err
}

// From kadm 1.17 on.
func (d *driver) listConfigResources(ctx context.Context) error {
	method := reflect.ValueOf(d.admin).MethodByName("ListConfigResources")
	if !method.IsValid() {
		return errUnsupported
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx)})
	if err, failed := results[1].Interface().(error); failed {
		return err
	}
	resources := results[0].FieldByName("Resources")
	for i := 0; i < resources.Len(); i++ {
		if resource := resources.Index(i); resource.FieldByName("Type").Int() == 2 {
			d.row(resource.FieldByName("Name").String())
		}
	}
	if err, failed := results[0].FieldByName("Err").Interface().(error); failed {
		return err
	}
	return nil
}

func (d *driver) electLeaders(ctx context.Context, topic string, partition int32) error {
	found, err := d.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica,
		topicPartition(topic, partition))
	if err != nil {
		return err
	}
	answer, ok := found[topic][partition]
	if !ok {
		return errors.New("no answer for the partition")
	}
	return answer.Err
}

func (d *driver) describeProducers(ctx context.Context, topic string, partition int32) error {
	found, err := d.admin.DescribeProducers(ctx, topicPartition(topic, partition))
	if err != nil {
		return err
	}
	described := found[topic].Partitions[partition]
	for _, producer := range described.ActiveProducers {
		d.row(producer.ProducerID, producer.ProducerEpoch, producer.LastSequence)
	}
	return described.Err
}

func (d *driver) offset(ctx context.Context, topic string, partition int32, which,
	isolation string) error {
	var found kadm.ListedOffsets
	var err error
	switch {
	case which == "earliest":
		found, err = d.admin.ListStartOffsets(ctx, topic)
	case which == "latest" && isolation == "read_committed":
		found, err = d.admin.ListCommittedOffsets(ctx, topic)
	case which == "latest":
		found, err = d.admin.ListEndOffsets(ctx, topic)
	default:
		found, err = d.admin.ListOffsetsAfterMilli(ctx, number[int64](which), topic)
	}
	if err != nil {
		return err
	}
	answer, ok := found.Lookup(topic, partition)
	if !ok {
		return errors.New("no answer for the partition")
	}
	d.row(answer.Offset)
	return answer.Err
}

func record(topic string, partition int32, field string) (*kgo.Record, error) {
	parts := strings.Split(field, ";")
	key, keyErr := decode(parts[1])
	value, valueErr := decode(parts[2])
	if err := first(keyErr, valueErr); err != nil {
		return nil, err
	}
	made := &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value}
	if parts[0] != null {
		made.Timestamp = time.UnixMilli(number[int64](parts[0]))
	}
	if parts[3] != "" {
		for _, header := range strings.Split(parts[3], ",") {
			name, value, _ := strings.Cut(header, ":")
			nameBytes, nameErr := decode(name)
			valueBytes, valueErr := decode(value)
			if err := first(nameErr, valueErr); err != nil {
				return nil, err
			}
			made.Headers = append(made.Headers,
				kgo.RecordHeader{Key: string(nameBytes), Value: valueBytes})
		}
	}
	return made, nil
}

func (d *driver) producer(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(d.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(8 << 20),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.UnknownTopicRetries(2),
	}, more...)...)
}

func (d *driver) send(ctx context.Context, client *kgo.Client, call, fields []string) error {
	var records []*kgo.Record
	for _, field := range fields {
		one, err := record(call[1], number[int32](call[2]), field)
		if err != nil {
			return err
		}
		records = append(records, one)
	}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return err
	}
	for _, one := range records { // in the order they were given, which results may not have
		d.row(one.Offset)
	}
	return nil
}

func (d *driver) produce(ctx context.Context, call []string) error {
	options := settings(strings.Split(call[3], ","))
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[options["codec"]]),
		kgo.RequiredAcks(acks[options["acks"]]),
	}
	if options["idempotent"] == "0" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	client, err := d.producer(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return d.send(ctx, client, call, call[4:])
}

func (d *driver) transaction(ctx context.Context, call []string) error {
	client, err := d.producer(kgo.TransactionalID(call[3]))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := d.send(ctx, client, call, call[5:]); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TransactionEndTry(call[4] == "commit"))
}

func (d *driver) open(call []string) error {
	d.closeConsumer()
	d.topic, d.partition = call[1], number[int32](call[2])
	resets := map[string]kgo.Offset{
		"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(),
		"none": kgo.NoResetOffset(),
	}
	isolation := kgo.ReadUncommitted()
	if call[3] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	d.consumerOpt = []kgo.Opt{
		kgo.SeedBrokers(d.bootstrap),
		kgo.ConsumeResetOffset(resets[call[4]]),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	return nil
}

func (d *driver) seek(where string) error {
	d.fetched = nil
	offset := kgo.NewOffset()
	switch where {
	case "begin":
		offset = offset.AtStart()
	case "end":
		offset = offset.AtEnd()
	default:
		offset = offset.At(number[int64](where))
	}
	at := map[string]map[int32]kgo.Offset{d.topic: {d.partition: offset}}
	if d.consumer == nil {
		client, err := kgo.NewClient(append(d.consumerOpt, kgo.ConsumePartitions(at))...)
		d.consumer = client
		return err
	}
	d.consumer.RemoveConsumePartitions(map[string][]int32{d.topic: {d.partition}})
	d.consumer.AddConsumePartitions(at)
	return nil
}

func (d *driver) show(one *kgo.Record) {
	var headers []string
	for _, header := range one.Headers {
		headers = append(headers, encode([]byte(header.Key))+":"+encode(header.Value))
	}
	d.row(one.Offset, one.Attrs.TimestampType(),
		fmt.Sprintf("%d;%s;%s;%s", one.Timestamp.UnixMilli(), encode(one.Key), encode(one.Value),
			strings.Join(headers, ",")))
}

// An error that is not the end of the time.
func (d *driver) fetch(ctx context.Context) error {
	fetches := d.consumer.PollFetches(ctx)
	d.fetched = append(d.fetched, fetches.Records()...)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return failed.Err
		}
	}
	return nil
}

func (d *driver) read(ctx context.Context, count int) error {
	for len(d.fetched) < count {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records came", len(d.fetched), count)
		}
		if err := d.fetch(ctx); err != nil {
			return err
		}
	}
	for _, one := range d.fetched[:count] {
		d.show(one)
	}
	d.fetched = d.fetched[count:]
	return nil
}

func (d *driver) poll(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for ctx.Err() == nil {
		if err := d.fetch(ctx); err != nil {
			return err
		}
	}
	for _, one := range d.fetched {
		d.show(one)
	}
	d.fetched = nil
	return nil
}

func (d *driver) closeConsumer() {
	if d.consumer != nil {
		d.consumer.Close()
	}
	d.consumer, d.fetched = nil, nil
}

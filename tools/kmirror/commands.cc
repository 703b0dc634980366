#include "tools/kmirror/commands.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "src/protocol/registry.h"
#include "tools/kmirror/mirror_config_file.h"
#include "tools/kmirror/output.h"
#include "tools/kmirror/topic_selection.h"
#include "tools/kmirror/waiting.h"

namespace kmirror::tools {
namespace {

constexpr char kBootstrapConfig[] = "bootstrap.servers";
constexpr char kSourceIdConfig[] = "source.cluster.id";

// "a, b and 3 more".
std::string Names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

class Session {
 public:
  Session(Verb verb, const Arguments& arguments, std::ostream& out, std::ostream& err)
      : verb_(verb), arguments_(arguments), out_(out), err_(err) {}

  ExitCode Run() {
    const Result<std::vector<HostPort>> servers = ParseServers(arguments_.bootstrap);
    if (!servers.ok()) return Usage("--bootstrap-server: " + servers.status().message());
    cluster_ = std::make_unique<ClusterClient>(*servers, arguments_.timeout);
    admin_ = std::make_unique<MirrorAdmin>(cluster_.get());
    Configs configs;
    if (verb_ == Verb::kCreate) {
      // What is wrong with the arguments shows before anything is connected.
      if (const ExitCode code = GatherConfigs(&configs); code != kDone) return code;
    }
    if (const Status status = admin_->Check(); !status.ok()) return Fail(status);
    switch (verb_) {
      case Verb::kCreate: return Create(std::move(configs));
      case Verb::kStart: return Start();
      case Verb::kPause:
      case Verb::kResume:
      case Verb::kStop:
      case Verb::kRecover: return Change();
      case Verb::kDelete: return Delete();
      case Verb::kList: return List();
      case Verb::kDescribe: return Describe();
      case Verb::kStatus: return ShowStatus();
    }
    return kUsage;
  }

 private:
  ExitCode Usage(const std::string& text) {
    err_ << "kmirror: " << text << '\n';
    return kUsage;
  }

  ExitCode Fail(const Status& status, const std::string& next = {}) {
    if (status.code() == ErrorCode::kUsage) return Usage(status.message());
    err_ << "kmirror " << VerbName(verb_) << ": " << status.ToString() << '\n';
    const std::string step = next.empty() ? NextStep(status, verb_, arguments_) : next;
    if (!step.empty()) err_ << "  next: " << step << '\n';
    return kFailed;
  }

  // ---- create

  ExitCode GatherConfigs(Configs* configs) {
    if (!arguments_.config_file.empty()) {
      Result<Configs> file = ReadProperties(arguments_.config_file);
      if (!file.ok()) return Usage(file.status().message());
      *configs = std::move(file).value();
    }
    for (const std::string& text : arguments_.configs) {
      const auto config = ParseConfig(text);
      if (!config.ok()) return Usage(config.status().message());
      (*configs)[config->first] = config->second;
    }
    // The prefixed spelling of the prototype (R25) is the broker's to accept; these two are read
    // here.
    for (const char* name : {kBootstrapConfig, kSourceIdConfig, "security.protocol"}) {
      if (auto it = configs->find("mirror." + std::string(name)); it != configs->end()) {
        configs->try_emplace(name, it->second);
        configs->erase(it);
      }
    }
    if (!arguments_.source.empty()) (*configs)[kBootstrapConfig] = arguments_.source;
    if (!configs->contains(kBootstrapConfig)) {
      return Usage("create needs --source HOST:PORT, or bootstrap.servers among the configs");
    }
    const auto servers = ParseServers(configs->at(kBootstrapConfig));
    if (!servers.ok()) return Usage("--source: " + servers.status().message());
    return kDone;
  }

  // A source that wants more than plain text is the broker's to ask: the files that the configs
  // name are on its machine, and what is secret among them is shown to nobody.
  static bool BrokerAlone(const Configs& configs) {
    const auto it = configs.find("security.protocol");
    return it != configs.end() && it->second != "PLAINTEXT";
  }

  // Connects to the source that `configs` describe. Prints what is wrong and says so with nullopt.
  std::optional<SourceCluster> OpenSource(const Configs& configs) {
    const auto bootstrap = configs.find(kBootstrapConfig);
    const auto servers =
        ParseServers(bootstrap == configs.end() ? std::string() : bootstrap->second);
    if (!servers.ok()) {
      Fail({ErrorCode::kInvalidConfig,
            "mirror " + arguments_.mirror + " has no usable bootstrap.servers"});
      return std::nullopt;
    }
    Result<SourceCluster> source = ReadSource(*servers, arguments_.timeout);
    if (!source.ok()) {
      Fail({source.status().code(),
            "the source " + bootstrap->second +
                " cannot be read, nothing was changed: " + source.status().message()},
           "see that the source runs and that its advertised listeners can be reached from here");
      return std::nullopt;
    }
    return std::move(source).value();
  }

  ExitCode Create(Configs configs) {
    if (BrokerAlone(configs)) return CreateUnseen(configs);
    const std::optional<SourceCluster> source = OpenSource(configs);
    if (!source) return kFailed;
    const std::string& given = configs[kSourceIdConfig];
    if (!given.empty() && !source->cluster_id.empty() && given != source->cluster_id) {
      return Fail({ErrorCode::kInvalidConfig,
                   "the source's cluster id is " + source->cluster_id + ", not " + given});
    }
    if (given.empty()) configs[kSourceIdConfig] = source->cluster_id;
    if (const auto own = admin_->ClusterId();
        own.ok() && !own->empty() && *own == source->cluster_id) {
      return Fail({ErrorCode::kInvalidRequest, "--source and --bootstrap-server are one cluster, " +
                                                   *own + ": a cluster cannot mirror itself"},
                  "give the address of the cluster to copy from with --source");
    }
    if (const Status status = admin_->Create(arguments_.mirror, configs); !status.ok()) {
      return Fail(status);
    }
    return Created(source->cluster_id, configs[kBootstrapConfig]);
  }

  ExitCode Created(const std::string& cluster_id, const std::string& servers) {
    out_ << "Created mirror " << arguments_.mirror << " of cluster " << cluster_id << " at "
         << servers << '\n';
    return kDone;
  }

  // The broker asks the source for its cluster id before it creates anything.
  ExitCode CreateUnseen(const Configs& configs) {
    if (const Status status = admin_->Create(arguments_.mirror, configs); !status.ok()) {
      return Fail(status);
    }
    const auto mirrors = admin_->List();
    if (!mirrors.ok()) return Fail(mirrors.status());
    for (const ListedMirror& mirror : *mirrors) {
      if (mirror.name == arguments_.mirror) {
        return Created(mirror.source_cluster_id, configs.at(kBootstrapConfig));
      }
    }
    return Fail({ErrorCode::kUnknownClusterMirror,
                 "mirror " + arguments_.mirror + " was created and is gone again"});
  }

  ExitCode Delete() {
    if (const Status status = admin_->Delete(arguments_.mirror); !status.ok()) return Fail(status);
    out_ << "Deleted mirror " << arguments_.mirror << '\n';
    return kDone;
  }

  // ---- start

  ExitCode Start() {
    const auto configs = admin_->Configs(arguments_.mirror);
    if (!configs.ok()) return Fail(configs.status());
    if (configs->empty()) {
      return Fail({ErrorCode::kUnknownClusterMirror, "there is no mirror " + arguments_.mirror});
    }
    if (BrokerAlone(*configs)) return StartUnseen();
    const std::optional<SourceCluster> source = OpenSource(*configs);
    if (!source) return kFailed;
    std::set<std::string> present;
    for (const auto& [name, topic] : source->topics) present.insert(name);
    std::vector<std::string> names(present.begin(), present.end());
    if (!arguments_.all) {
      auto chosen = SelectTopics(arguments_.topics, present);
      if (!chosen.ok()) return Fail(chosen.status().WithContext("at the source"));
      names = std::move(chosen).value();
    }
    if (names.empty()) {
      out_ << "Nothing to start: the source has no topics\n";
      return kDone;
    }
    if (!NameWhatGoes(names)) return kFailed;
    std::vector<SourceTopic> topics;
    Goal goal{.verb = verb_, .mirror = arguments_.mirror, .topics = {}};
    for (const std::string& name : names) {
      const SourceTopic& topic = source->topics.at(name);
      topics.push_back(topic);
      goal.topics[name] = topic.partitions;
    }
    const auto outcomes = admin_->Start(arguments_.mirror, topics, arguments_.discard_local);
    return Finish(outcomes, "Started", names, std::move(goal));
  }

  // The broker asks the source for ids and partitions of the topics; what topics there are, it does
  // not tell.
  ExitCode StartUnseen() {
    const std::set<std::string> wanted(arguments_.topics.begin(), arguments_.topics.end());
    const bool patterns = std::any_of(wanted.begin(), wanted.end(), [](const std::string& name) {
      return name.find_first_not_of(
                 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                 "0123456789._-") != std::string::npos;
    });
    if (arguments_.all || patterns) {
      return Fail({ErrorCode::kInvalidRequest,
                   "the source is reached over TLS, by the broker alone: its topics cannot be "
                   "listed from here"},
                  "name each topic with --topics");
    }
    const std::vector<std::string> names(wanted.begin(), wanted.end());
    if (!NameWhatGoes(names)) return kFailed;
    std::vector<SourceTopic> topics;
    for (const std::string& name : names) topics.push_back({.name = name});
    const auto outcomes = admin_->Start(arguments_.mirror, topics, arguments_.discard_local);
    if (!outcomes.ok()) return Fail(outcomes.status());
    const auto partitions = admin_->Partitions(names);
    if (!partitions.ok()) return Fail(partitions.status());
    // A guess at how many partitions there are would end the wait too early.
    for (const TopicOutcome& outcome : *outcomes) {
      if (outcome.status.ok() && !partitions->contains(outcome.topic)) {
        return Fail(
            {ErrorCode::kUnknownTopicOrPartition,
             outcome.topic + " is started, but the broker does not show its partitions yet"},
            "`kmirror status` shows when they mirror");
      }
    }
    Goal goal{.verb = verb_, .mirror = arguments_.mirror, .topics = *partitions};
    return Finish(outcomes, "Started", names, std::move(goal));
  }

  // R31: what a start may remove is named before anything happens. Of a topic that was stopped
  // here, that is what was written since; of one that is no mirror, all it has.
  bool NameWhatGoes(const std::vector<std::string>& names) {
    const auto description = admin_->Describe(arguments_.mirror);
    if (!description.ok()) {
      Fail(description.status());
      return false;
    }
    std::map<std::pair<std::string, int32_t>, PartitionRow> rows;
    std::set<std::string> active;
    for (const PartitionRow& row : description->rows) {
      if (row.mirror != arguments_.mirror) continue;
      rows[{row.topic, row.partition}] = row;
      if (row.state != "STOPPED") active.insert(row.topic);
    }
    std::vector<std::string> since_stop, unknown;
    for (const std::string& name : names) {
      if (active.contains(name)) continue;  // this start changes nothing
      const auto found = admin_->LocalData(name);
      if (!found.ok()) {
        Fail(found.status().WithContext("local data of " + name));
        return false;
      }
      for (const LocalRange& range : *found) {
        const auto row = rows.find({name, range.partition});
        const bool known = row != rows.end() && row->second.last_mirror_offset >= 0;
        const int64_t from =
            known ? std::max(range.first, row->second.last_mirror_offset) : range.first;
        // One offset alone is the reset with which every stop ends.
        if (range.end - from <= (known ? 1 : 0)) continue;
        (known ? since_stop : unknown)
            .push_back(name + "-" + std::to_string(range.partition) + ": offsets " +
                       std::to_string(from) + " to " + std::to_string(range.end - 1));
      }
    }
    if (!since_stop.empty()) {
      err_ << "Written here since the stop (its own markers among it), and removed now, as the "
              "topic follows the source again:\n";
      for (const std::string& line : since_stop) err_ << "  " << line << '\n';
    }
    if (!unknown.empty()) {
      err_ << "Here already; what of it the source does not have is removed"
           << (arguments_.discard_local
                   ? ", and all of it where no common position with the source is found:\n"
                   : ". Without a common position the start is refused:\n");
      for (const std::string& line : unknown) err_ << "  " << line << '\n';
    }
    if (arguments_.discard_local && unknown.empty()) {
      err_ << "--discard-local: these topics hold no local data\n";
    }
    return true;
  }

  // ---- pause, resume, stop, recover

  // Topics of the mirror, stopped ones included.
  Result<std::set<std::string>> TopicsOfMirror(std::vector<PartitionRow>* rows) {
    const auto listed = admin_->List();
    if (!listed.ok()) return listed.status();
    std::set<std::string> topics;
    bool known = false;
    for (const ListedMirror& mirror : *listed) {
      if (mirror.name != arguments_.mirror) continue;
      known = true;
      topics.insert(mirror.topics.begin(), mirror.topics.end());
    }
    if (!known) {
      return {ErrorCode::kUnknownClusterMirror, "there is no mirror " + arguments_.mirror};
    }
    auto description = admin_->Describe(arguments_.mirror);
    if (!description.ok()) return description.status();
    for (const PartitionRow& row : description->rows) {
      if (row.mirror == arguments_.mirror) topics.insert(row.topic);
    }
    *rows = std::move(description->rows);
    return topics;
  }

  // What --all means: every topic the verb can do something for.
  std::vector<std::string> Affected(const std::set<std::string>& topics,
                                    const std::vector<PartitionRow>& rows) const {
    std::map<std::string, std::set<std::string>> states;
    for (const PartitionRow& row : rows) {
      if (row.mirror == arguments_.mirror) states[row.topic].insert(row.state);
    }
    std::vector<std::string> affected;
    for (const std::string& topic : topics) {
      const std::set<std::string>& seen = states[topic];
      const bool all_stopped = seen == std::set<std::string>{"STOPPED"};
      if (verb_ == Verb::kRecover ? seen.contains("FAILED") : !all_stopped)
        affected.push_back(topic);
    }
    return affected;
  }

  ExitCode Change() {
    std::vector<PartitionRow> rows;
    const auto present = TopicsOfMirror(&rows);
    if (!present.ok()) return Fail(present.status());
    std::vector<std::string> names;
    if (arguments_.all) {
      names = Affected(*present, rows);
    } else {
      auto chosen = SelectTopics(arguments_.topics, *present);
      if (!chosen.ok()) return Fail(chosen.status().WithContext("in mirror " + arguments_.mirror));
      names = std::move(chosen).value();
    }
    if (names.empty()) {
      out_ << "Nothing to " << VerbName(verb_) << " in mirror " << arguments_.mirror << '\n';
      return kDone;
    }
    Goal goal{.verb = verb_, .mirror = arguments_.mirror, .topics = {}};
    for (const std::string& name : names) goal.topics[name] = 1;
    for (const PartitionRow& row : rows) {
      if (row.mirror != arguments_.mirror) continue;
      if (auto it = goal.topics.find(row.topic); it != goal.topics.end()) {
        it->second = std::max(it->second, row.partition + 1);
      }
    }
    const char* word = verb_ == Verb::kPause    ? "Pausing"
                       : verb_ == Verb::kResume ? "Resumed"
                       : verb_ == Verb::kStop   ? "Stopping"
                                                : "Recovering";
    return Finish(admin_->Change(verb_, arguments_.mirror, names), word, names, std::move(goal));
  }

  ExitCode Finish(const Result<std::vector<TopicOutcome>>& outcomes, const char* word,
                  std::vector<std::string> names, Goal goal) {
    if (!outcomes.ok()) return Fail(outcomes.status());
    ExitCode code = kDone;
    for (const TopicOutcome& outcome : *outcomes) {
      if (outcome.status.ok()) continue;
      code = Fail(outcome.status.WithContext(outcome.topic));
      std::erase(names, outcome.topic);
      goal.topics.erase(outcome.topic);
    }
    if (names.empty()) return code;
    out_ << word << ' ' << names.size() << " topic(s) in mirror " << arguments_.mirror << ": "
         << Names(names) << std::endl;
    if (!arguments_.wait_seconds) {
      if (verb_ == Verb::kStop) {
        out_ << "They become writable partition by partition; `kmirror stop " << arguments_.mirror
             << " ... --wait 60` waits for that, `kmirror status` shows it\n";
      }
      return code;
    }
    const auto patience = std::chrono::milliseconds(
        static_cast<int64_t>(std::min(*arguments_.wait_seconds, 1e9) * 1000));
    switch (WaitFor(*admin_, goal, patience, arguments_.poll_interval, arguments_.live_progress,
                    err_)) {
      case WaitEnd::kReached: out_ << "Done: every partition is " << Reached() << '\n'; return code;
      case WaitEnd::kHopeless:
        err_ << "kmirror " << VerbName(verb_)
             << ": a partition has failed and will not be retried\n"
             << "  next: mend what it says, then `kmirror recover " << arguments_.mirror
             << " --topics TOPIC`\n";
        return kFailed;
      case WaitEnd::kRanOut:
        err_ << "kmirror " << VerbName(verb_) << ": " << *arguments_.wait_seconds
             << " seconds were not enough; the order stands and goes on without this command\n"
             << "  next: `kmirror describe " << arguments_.mirror << "`, or wait again\n";
        return kWaitRanOut;
    }
    return kFailed;
  }

  const char* Reached() const {
    switch (verb_) {
      case Verb::kPause: return "PAUSED";
      case Verb::kStop: return "STOPPED and writable";
      case Verb::kRecover: return "out of FAILED";
      default: return "MIRRORING and caught up";
    }
  }

  // ---- list, describe, status

  ExitCode List() {
    const auto mirrors = admin_->List();
    if (!mirrors.ok()) return Fail(mirrors.status());
    if (!arguments_.json) {
      PrintList(*mirrors, out_);
      return kDone;
    }
    const auto description = admin_->Describe("");
    if (!description.ok()) return Fail(description.status());
    out_ << SummaryJson(Summarise(*mirrors, description->rows));
    return Complete(*description);
  }

  // A broker that did not answer leaves a hole in the picture: shown, and not called success.
  ExitCode Complete(const Description& description) {
    for (const std::string& silent : description.silent) {
      err_ << "kmirror " << VerbName(verb_) << ": partitions led by " << silent << " are missing\n";
    }
    for (const auto& [mirror, status] : description.refused) {
      Fail(status.WithContext("mirror " + mirror));
    }
    return description.silent.empty() && description.refused.empty() ? kDone : kFailed;
  }

  ExitCode Describe() {
    const auto description = admin_->Describe(arguments_.mirror);
    if (!description.ok()) return Fail(description.status());
    if (description->rows.empty() && description->refused.empty() && !arguments_.mirror.empty()) {
      std::vector<PartitionRow> ignored;
      if (const auto topics = TopicsOfMirror(&ignored); !topics.ok()) return Fail(topics.status());
    }
    std::vector<PartitionRow> rows = description->rows;
    if (arguments_.failed) {
      std::erase_if(rows, [](const PartitionRow& row) { return row.state != "FAILED"; });
    }
    if (arguments_.json) {
      out_ << DescriptionJson(rows);
    } else if (arguments_.failed) {
      PrintFailed(rows, out_);
    } else {
      PrintDescription(rows, out_);
    }
    return Complete(*description);
  }

  ExitCode ShowStatus() {
    auto mirrors = admin_->List();
    if (!mirrors.ok()) return Fail(mirrors.status());
    if (!arguments_.mirror.empty()) {
      std::erase_if(*mirrors, [&](const auto& mirror) { return mirror.name != arguments_.mirror; });
      if (mirrors->empty()) {
        return Fail({ErrorCode::kUnknownClusterMirror, "there is no mirror " + arguments_.mirror});
      }
    }
    const auto description = admin_->Describe(arguments_.mirror);
    if (!description.ok()) return Fail(description.status());
    const std::vector<MirrorSummary> summaries = Summarise(*mirrors, description->rows);
    if (arguments_.json) {
      out_ << SummaryJson(summaries);
    } else {
      PrintStatus(summaries, out_);
    }
    return Complete(*description);
  }

  Verb verb_;
  const Arguments& arguments_;
  std::ostream& out_;
  std::ostream& err_;
  std::unique_ptr<ClusterClient> cluster_;
  std::unique_ptr<MirrorAdmin> admin_;
};

}  // namespace

ExitCode Run(Verb verb, const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return Session(verb, arguments, out, err).Run();
}

ExitCode PrintApiVersions(const std::string& server, std::chrono::milliseconds timeout,
                          std::ostream& out, std::ostream& err) {
  const auto servers = ParseServers(server);
  if (!servers.ok()) {
    err << "kmirror: " << servers.status().message() << '\n';
    return kUsage;
  }
  ClusterClient cluster(*servers, timeout);
  const auto connection = cluster.Any();
  if (!connection.ok()) {
    err << "kmirror api-versions: " << connection.status().ToString() << '\n';
    return kFailed;
  }
  const ServedApis& served = (*connection)->served();
  for (const auto& [key, range] : served.apis) {
    // The keys of KIP-1279 mean other things to a broker that does not mirror (R17).
    const protocol::ApiInfo* api = protocol::FindApi(key);
    const bool foreign = key >= 94 && served.Feature("mirror.version") < 1;
    out << key << ' ' << (api != nullptr && !foreign ? api->name : "?") << ' ' << range.min_version
        << ".." << range.max_version << '\n';
  }
  for (const auto& [name, level] : served.features)
    out << "feature " << name << ' ' << level << '\n';
  return kDone;
}

}  // namespace kmirror::tools

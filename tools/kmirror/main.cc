// kmirror: the command line of cluster mirroring. Arguments are parsed here and nowhere else.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>

#include "tools/kmirror/commands.h"
#include "tools/kmirror/topic_selection.h"

namespace kmirror::tools {
namespace {

struct Parsed {
  Arguments arguments;
  std::string topics;
  std::string server;  // api-versions
  double wait = 0;
};

CLI::App* AddMirrorVerb(CLI::App& app, const char* name, const char* help, Parsed* parsed,
                        bool required = true) {
  CLI::App* verb = app.add_subcommand(name, help);
  CLI::Option* mirror = verb->add_option("MIRROR", parsed->arguments.mirror, "name of the mirror");
  if (required) mirror->required();
  return verb;
}

CLI::App* AddTopicVerb(CLI::App& app, const char* name, const char* help, const char* wait_help,
                       Parsed* parsed) {
  CLI::App* verb = AddMirrorVerb(app, name, help, parsed);
  CLI::Option_group* which = verb->add_option_group("topics", "which topics");
  which->add_option("--topics", parsed->topics, "names or patterns (RE2), separated by commas");
  which->add_flag("--all", parsed->arguments.all, "every topic");
  which->require_option(1);
  verb->add_option("--wait", parsed->wait, wait_help)
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("SECONDS");
  return verb;
}

// The first word that is no option, when it is no verb either: the parser would only say that one
// is missing.
std::optional<std::string> UnknownVerb(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--bootstrap-server") ++i;
    if (word.starts_with('-')) continue;
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (verb->get_name() == word) return std::nullopt;
    }
    return word;
  }
  return std::nullopt;
}

int Main(int argc, char** argv) {
  Parsed parsed;
  Arguments& arguments = parsed.arguments;
  CLI::App app("Mirrors topics of a Kafka cluster into this one, and takes over from it.",
               "kmirror");
  app.set_version_flag("--version", "kmirror 0.1.0");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit codes: 0 done, 1 refused or failed, 2 usage, 3 the wait ran out.\n"
      "docs/operations.md maps each verb to the flag of kafka-cluster-mirrors.sh.");
  CLI::Option* bootstrap = app.add_option("--bootstrap-server", arguments.bootstrap,
                                          "destination cluster, HOST:PORT[,...]")
                               ->envname("KMIRROR_BOOTSTRAP");

  CLI::App* create = AddMirrorVerb(app, "create", "Define a mirror of a source cluster", &parsed);
  create->add_option("--source", arguments.source, "source cluster, HOST:PORT[,HOST:PORT]");
  create->add_option("--mirror-config", arguments.config_file, "properties file of mirror configs");
  create->add_option("--config", arguments.configs, "one mirror config, KEY=VALUE; may be repeated")
      ->allow_extra_args(false);

  CLI::App* start = AddTopicVerb(app, "start", "Begin to mirror topics of the source",
                                 "return when every partition is MIRRORING and caught up", &parsed);
  start->add_flag("--discard-local", arguments.discard_local,
                  "allow local data to go when there is no common position with the source");
  CLI::App* pause = AddTopicVerb(app, "pause", "Hold mirroring; topics stay read-only",
                                 "return when every partition is PAUSED", &parsed);
  CLI::App* resume =
      AddTopicVerb(app, "resume", "Go on with paused topics",
                   "return when every partition is MIRRORING and caught up", &parsed);
  CLI::App* stop = AddTopicVerb(app, "stop", "Fail over: make topics writable here",
                                "return when every partition is STOPPED", &parsed);
  CLI::App* recover = AddTopicVerb(app, "recover", "Retry FAILED partitions now",
                                   "return when no partition is FAILED", &parsed);
  CLI::App* remove =
      AddMirrorVerb(app, "delete", "Forget a mirror whose topics are all stopped", &parsed);
  CLI::App* list = app.add_subcommand("list", "The mirrors of this cluster");
  CLI::App* describe =
      AddMirrorVerb(app, "describe", "State, offsets and lag of every partition", &parsed, false);
  describe->add_flag("--failed", arguments.failed, "FAILED partitions only");
  CLI::App* status = AddMirrorVerb(app, "status", "Each mirror in one line", &parsed, false);
  for (CLI::App* verb : {list, describe, status}) {
    verb->add_flag("--json", arguments.json, "for programs");
  }
  CLI::App* versions = app.add_subcommand("api-versions", "What a broker says it serves");
  versions->add_option("SERVER", parsed.server, "HOST:PORT")->required();

  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("kmirror: ") + error.what() +
           "\n  next: `kmirror --help` lists the verbs, `kmirror VERB --help` what one takes\n";
  });

  try {
    if (const auto word = UnknownVerb(app, argc, argv)) {
      std::cerr << "kmirror: there is no verb \"" << *word << "\"; `kmirror --help` lists them\n";
      return kUsage;
    }
    app.parse(argc, argv);
    if (!versions->parsed() && bootstrap->empty()) {
      throw CLI::RequiredError("--bootstrap-server HOST:PORT (or KMIRROR_BOOTSTRAP)");
    }
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is usage.
    return app.exit(error, std::cout, std::cerr) == 0 ? kDone : kUsage;
  }

  arguments.topics = SplitList(parsed.topics);
  bool named = false;  // also as --topics "$UNSET"
  for (CLI::App* verb : {start, pause, resume, stop, recover}) named |= verb->count("--topics") > 0;
  if (named && arguments.topics.empty()) {
    std::cerr << "kmirror: --topics names no topic\n";
    return kUsage;
  }
  for (CLI::App* verb : {start, pause, resume, stop, recover}) {
    if (verb->parsed() && verb->count("--wait") > 0) arguments.wait_seconds = parsed.wait;
  }
  arguments.live_progress = isatty(STDERR_FILENO) == 1;

  if (versions->parsed()) {
    return PrintApiVersions(parsed.server, arguments.timeout, std::cout, std::cerr);
  }
  const std::pair<CLI::App*, Verb> verbs[] = {
      {create, Verb::kCreate}, {start, Verb::kStart}, {pause, Verb::kPause},
      {resume, Verb::kResume}, {stop, Verb::kStop},   {recover, Verb::kRecover},
      {remove, Verb::kDelete}, {list, Verb::kList},   {describe, Verb::kDescribe},
      {status, Verb::kStatus}};
  for (const auto& [verb_app, verb] : verbs) {
    if (verb_app->parsed()) return Run(verb, arguments, std::cout, std::cerr);
  }
  return kUsage;
}

}  // namespace
}  // namespace kmirror::tools

int main(int argc, char** argv) {
  try {
    return kmirror::tools::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "kmirror: " << error.what() << '\n';
    return kmirror::tools::kFailed;
  }
}

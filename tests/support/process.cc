#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>

extern char** environ;

namespace kmirror::test {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("pipe2");
    std::abort();
  }
  return {ends[0], ends[1]};
}

std::vector<std::string> MergedEnvironment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Appends what is there; false at the end of the stream.
bool ReadSome(int fd, std::string& chunk) {
  char buffer[16384];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR;
  chunk.assign(buffer, static_cast<size_t>(got));
  return got > 0;
}

}  // namespace

Process::Process(std::vector<std::string> argv,
                 const std::map<std::string, std::string>& environment) {
  // Everything that allocates happens before fork: the child may only make system calls.
  std::vector<std::string> merged = MergedEnvironment(environment);
  const std::vector<char*> arguments = Pointers(argv);
  const std::vector<char*> variables = Pointers(merged);
  const Pipe in = MakePipe(), out = MakePipe(), err = MakePipe();
  const pid_t parent = ::getpid();

  pid_ = ::fork();
  if (pid_ < 0) {
    std::perror("fork");
    std::abort();
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // the parent died before prctl took effect
    ::dup2(in.read, 0);
    ::dup2(out.write, 1);
    ::dup2(err.write, 2);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    const char* reason = std::strerror(errno);
    [[maybe_unused]] ssize_t ignored = ::write(2, arguments[0], std::strlen(arguments[0]));
    ignored = ::write(2, ": ", 2);
    ignored = ::write(2, reason, std::strlen(reason));
    ignored = ::write(2, "\n", 1);
    ::_exit(127);
  }
  ::close(in.read);
  ::close(out.write);
  ::close(err.write);
  in_ = in.write;
  out_fd_ = out.read;
  err_fd_ = err.read;
  reader_ = std::thread([this] { ReadOutput(); });
}

Process::~Process() {
  Kill();
  if (in_ >= 0) ::close(in_);
  if (!exit_) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  // A grandchild may hold the pipes open; give the reader its end instead of waiting for that.
  {
    const std::lock_guard lock(mutex_);
    all_ended_ = true;
  }
  reader_.join();
  ::close(out_fd_);
  ::close(err_fd_);
}

void Process::ReadOutput() {
  bool out_open = true, err_open = true;
  while (out_open || err_open) {
    pollfd fds[2] = {{out_open ? out_fd_ : -1, POLLIN, 0}, {err_open ? err_fd_ : -1, POLLIN, 0}};
    // The time-out only serves the destructor, see there.
    const int ready = ::poll(fds, 2, 100);
    if (ready <= 0) {
      const std::lock_guard lock(mutex_);
      if (all_ended_) return;
      continue;
    }
    std::string out_chunk, err_chunk;
    if (fds[0].revents != 0) out_open = ReadSome(out_fd_, out_chunk);
    if (fds[1].revents != 0) err_open = ReadSome(err_fd_, err_chunk);
    {
      const std::lock_guard lock(mutex_);
      out_ += out_chunk;
      err_ += err_chunk;
      out_ended_ = !out_open;
      all_ended_ = all_ended_ || (!out_open && !err_open);
    }
    changed_.notify_all();
  }
}

std::optional<std::string> Process::WaitForLine(const std::string& pattern, Seconds patience) {
  const std::regex expression(pattern);
  const Deadline deadline(patience);
  std::unique_lock lock(mutex_);
  for (;;) {
    for (;;) {
      const size_t end = out_.find('\n', line_start_);
      if (end == std::string::npos) break;
      std::string line = out_.substr(line_start_, end - line_start_);
      line_start_ = end + 1;
      // libstdc++ recurses once a character: a very long line would overflow the stack.
      if (std::regex_search(line.substr(0, 4096), expression)) return line;
    }
    if (out_ended_ || deadline.Passed()) return std::nullopt;
    changed_.wait_for(lock, deadline.Left());
  }
}

void Process::Signal(int signal) {
  if (!Poll()) ::kill(pid_, signal);
}

bool Process::Poll() {
  if (exit_) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  exit_ = WIFEXITED(status) ? ExitStatus{WEXITSTATUS(status), 0} : ExitStatus{0, WTERMSIG(status)};
  return true;
}

std::optional<ExitStatus> Process::Wait(Seconds patience) {
  const Deadline deadline(patience);
  if (!WaitUntil([&] { return Poll(); }, patience)) return std::nullopt;
  // What the process wrote before its end is in the pipes still.
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::max(deadline.Left(), std::chrono::milliseconds(1000)),
                    [&] { return all_ended_; });
  return exit_;
}

void Process::WriteInput(const std::string& text) {
  // The child may be gone or not read: then there is nobody to tell, and no SIGPIPE is wanted.
  sigset_t pipe_signal, before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(in_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  ::close(in_);
  in_ = -1;
  const timespec at_once{};
  ::sigtimedwait(&pipe_signal, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string Process::out() const {
  const std::lock_guard lock(mutex_);
  return out_;
}

std::string Process::err() const {
  const std::lock_guard lock(mutex_);
  return err_;
}

RunResult RunProgram(std::vector<std::string> argv, Seconds patience,
                     const std::map<std::string, std::string>& environment) {
  Process process(std::move(argv), environment);
  process.WriteInput("");
  RunResult result;
  result.status = process.Wait(patience);
  result.out = process.out();
  result.err = process.err();
  return result;
}

}  // namespace kmirror::test

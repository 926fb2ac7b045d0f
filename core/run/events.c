/* Where the main thread waits: for signals, for requests, for time. No handler ever runs: all signals are blocked in
 * all threads, and read here. */
#include "base/clock.h"
#include "base/log.h"
#include "run/hosting.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum status events_open(struct process *p, struct error *err)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	p->request.fd = -1;
	p->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signal_fd < 0 ? error_errno(err, ST_INTERNAL, errno, "signalfd") : ST_OK;
}

void events_close(struct process *p)
{
	if (p->signal_fd >= 0)
		close(p->signal_fd);
}

static void take_signal(struct process *p)
{
	struct signalfd_siginfo info;
	while (read(p->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			p->reload_wanted = true;
			continue;
		}
		p->ends++;
		p->end_signal = info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
	}
}

static void take_request(struct process *p)
{
	struct control_request r;
	if (!control_accept(p->control, &r))
		return;
	if (strcmp(r.line, "status") == 0)
		status_answer(p, &r);
	else if (strcmp(r.line, "reload") != 0 && strcmp(r.line, "reload --dry-run") != 0)
		control_answer(&r, "{\"result\": \"unknown\"}\n");
	else if (p->applying || p->request.fd >= 0 || p->ends > 0)
		control_answer(&r, "{\"result\": \"busy\"}\n");
	else
		p->request = r;
}

void events_wait(struct process *p, int64_t deadline_ms)
{
	const int64_t now = clock_mono_ms(), wake = monitor_wake_ms(p->monitor);
	const int64_t until = wake < deadline_ms ? wake : deadline_ms;
	struct pollfd fds[] = {
		{ .fd = p->signal_fd, .events = POLLIN },
		{ .fd = p->control ? control_fd(p->control) : -1, .events = POLLIN },
	};
	if (poll(fds, ARRAY_LEN(fds), until > now ? (int)(until - now) : 0) < 0 && errno != EINTR)
		log_error("main_thread_cannot_wait", LOG_INT("errno", errno));
	monitor_look(p->monitor);
	status_sample(p);
	if (fds[0].revents)
		take_signal(p);
	if (fds[1].revents)
		take_request(p);
}

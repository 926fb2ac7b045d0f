#include "relay/calls.h"
#include "base/fault.h"
#include "client/client.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 64 };

struct calls {
	struct driver base; /* must be first */
	const struct protocol *protocol;
	CURLM *multi;
	int epoll;
	int64_t timer_ms; /* when libcurl wants to be called, on clock_mono_ms() */
	struct call *all; /* as many as calls may be under way */
	size_t count;
	struct call *free;
};

static struct calls *calls_of(const struct driver *d)
{
	return (struct calls *)d;
}

/* --- libcurl's sockets and timer --- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	struct calls *cs = arg;
	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		(void)epoll_ctl(cs->epoll, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	struct epoll_event event = { .data.fd = fd };
	if (what & CURL_POLL_IN)
		event.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		event.events |= EPOLLOUT;
	const int failed = epoll_ctl(cs->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
	if (!known)
		(void)curl_multi_assign(cs->multi, fd, cs);
	return failed ? -1 : 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
	(void)multi;
	((struct calls *)arg)->timer_ms = timeout_ms < 0 ? WAIT_FOREVER : clock_mono_ms() + timeout_ms;
	return 0;
}

/* --- one call --- */

void call_keep_answer(struct call *c, const char *data, size_t len)
{
	const size_t room = sizeof(c->answer) - c->answer_len, kept = len < room ? len : room;
	memcpy(c->answer + c->answer_len, data, kept);
	c->answer_len += kept;
}

bool call_create(struct call *c, const struct target *t, const struct protocol *protocol)
{
	const struct config_target *config = t->config;
	*c = (struct call){ .easy = curl_easy_init() };
	if (!c->easy)
		return false;
	const struct client_tls tls = { config->tls_ca_file, config->tls_cert_file, config->tls_key_file,
					config->tls_verify };
	bool good = client_set_up(c->easy, c->error, &tls);
#define SET(option, value) good = good && curl_easy_setopt(c->easy, option, value) == CURLE_OK
	SET(CURLOPT_PRIVATE, c);
	SET(CURLOPT_URL, t->url);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	if (t->user)
		SET(CURLOPT_USERNAME, t->user);
	if (t->password)
		SET(CURLOPT_PASSWORD, t->password);
#undef SET
	return good && protocol->set_up(c, t);
}

static void call_clear(struct call *c)
{
	curl_slist_free_all(c->list);
	c->list = NULL;
	buffer_clear(&c->body);
	c->body_sent = c->answer_bytes = c->answer_len = 0;
	c->cut = false;
	c->error[0] = '\0';
	c->row = NULL;
}

void call_destroy(struct call *c)
{
	call_clear(c);
	buffer_finish(&c->body);
	curl_easy_cleanup(c->easy);
}

static void finish(struct call *c, const struct verdict *verdict)
{
	struct calls *cs = c->calls;
	struct row *row = c->row;
	call_clear(c);
	c->next = cs->free;
	cs->free = c;
	lane_finish(cs->base.lane, row, verdict);
}

/* --- the driver --- */

enum status calls_create(struct driver **ret, struct lane *lane, const struct driver_ops *ops,
			 const struct protocol *protocol, struct error *err)
{
	struct calls *cs = calloc(1, sizeof(*cs));
	if (!cs)
		return error_oom(err);
	*cs = (struct calls){
		.base = { ops, lane },
		.protocol = protocol,
		.multi = curl_multi_init(),
		.epoll = epoll_create1(EPOLL_CLOEXEC),
		.timer_ms = WAIT_FOREVER,
		.count = (size_t)lane->config->in_flight,
	};
	cs->all = calloc(cs->count, sizeof(*cs->all));
	*ret = &cs->base;
	if (cs->epoll < 0)
		return error_errno(err, ST_INTERNAL, errno, "epoll_create1");
	if (!cs->multi || !cs->all)
		return error_oom(err);
	curl_multi_setopt(cs->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(cs->multi, CURLMOPT_SOCKETDATA, cs);
	curl_multi_setopt(cs->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(cs->multi, CURLMOPT_TIMERDATA, cs);
	curl_multi_setopt(cs->multi, CURLMOPT_MAXCONNECTS, (long)cs->count);
	for (size_t i = cs->count; i > 0; i--) {
		struct call *c = &cs->all[i - 1];
		const bool good = call_create(c, &lane->target, protocol);
		c->calls = cs;
		if (!good)
			return error_set(err, ST_INTERNAL, "libcurl refuses an option: is it built without TLS?");
		c->next = cs->free;
		cs->free = c;
	}
	return ST_OK;
}

void calls_destroy(struct driver *d)
{
	struct calls *cs = calls_of(d);
	for (size_t i = 0; cs->all && i < cs->count; i++) {
		struct call *c = &cs->all[i];
		if (c->row) {
			curl_multi_remove_handle(cs->multi, c->easy);
			row_free(c->row);
		}
		call_destroy(c);
	}
	free(cs->all);
	curl_multi_cleanup(cs->multi);
	if (cs->epoll >= 0)
		close(cs->epoll);
	free(cs);
}

bool calls_ready(struct driver *d)
{
	return calls_of(d)->free;
}

void calls_begin(struct driver *d, struct row *row, int64_t timeout_ms)
{
	struct calls *cs = calls_of(d);
	struct call *c = cs->free;
	struct verdict verdict = { 0 };
	cs->free = c->next;
	c->row = row;
	if (!cs->protocol->prepare(c, &d->lane->target, &verdict)) {
		finish(c, &verdict);
		return;
	}
	curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	const CURLMcode code = curl_multi_add_handle(cs->multi, c->easy);
	if (code != CURLM_OK) {
		verdict_set(&verdict, VERDICT_RETRY, "libcurl: %s", curl_multi_strerror(code));
		finish(c, &verdict);
	}
}

static void collect(struct calls *cs)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(cs->multi, &left));) {
		if (m->msg != CURLMSG_DONE)
			continue;
		const CURLcode code = m->data.result;
		struct call *c = NULL;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		struct verdict verdict = { 0 };
		cs->protocol->judge(c, &cs->base.lane->target, code, &verdict);
		curl_multi_remove_handle(cs->multi, c->easy); /* m dies */
		finish(c, &verdict);
	}
}

void calls_pump(struct driver *d)
{
	struct calls *cs = calls_of(d);
	struct epoll_event events[EVENTS];
	int running, n;
	do {
		n = epoll_wait(cs->epoll, events, EVENTS, 0);
		for (int i = 0; i < n; i++) {
			int what = 0;
			if (events[i].events & EPOLLIN)
				what |= CURL_CSELECT_IN;
			if (events[i].events & EPOLLOUT)
				what |= CURL_CSELECT_OUT;
			if (events[i].events & (EPOLLERR | EPOLLHUP))
				what |= CURL_CSELECT_ERR;
			curl_multi_socket_action(cs->multi, events[i].data.fd, what, &running);
		}
	} while (n == EVENTS);
	if (clock_mono_ms() >= cs->timer_ms) {
		cs->timer_ms = WAIT_FOREVER;
		curl_multi_socket_action(cs->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	collect(cs);
}

void calls_abandon(struct driver *d)
{
	struct calls *cs = calls_of(d);
	struct verdict verdict = { 0 };
	verdict_set(&verdict, VERDICT_RETRY, "effectd stopped before the answer came");
	for (size_t i = 0; i < cs->count; i++) {
		struct call *c = &cs->all[i];
		if (!c->row)
			continue;
		curl_multi_remove_handle(cs->multi, c->easy);
		finish(c, &verdict);
	}
}

int calls_fd(const struct driver *d)
{
	return calls_of(d)->epoll;
}

int64_t calls_wake_ms(const struct driver *d)
{
	return calls_of(d)->timer_ms;
}

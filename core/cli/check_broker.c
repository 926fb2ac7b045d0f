/* check --live: what only the brokers know. AMQP tells whether a queue is there and how many messages it has; what
 * happens to them besides being delivered only the management interface tells. */
#include "amqp/session.h"
#include "cli/check.h"
#include "management/management.h"
#include "run/params.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CONSUMER_TIMEOUT_MS = 30 * 60 * 1000 /* RabbitMQ's default: a delivery that takes longer closes its channel */ };

/* One broker under inspection. */
struct inspected {
	struct check *check;
	const struct config_broker *config;
	struct check_subject subject;
	struct amqp_session *session;
	struct amqp_address address;
	struct management *management; /* NULL: it is not known what the queues do */
};

/* --- the management interface --- */

/* It is asked only while it answers: a silent one must not cost its timeout for each queue. */
static void lose_management(struct inspected *b, const struct error *err)
{
	check_problem(b->check, check_peer_exit_code(err), b->subject.place, b->subject.section, "management_url",
		      "%s; what the queues do to their messages is not known", err->text);
	management_close(b->management);
	b->management = NULL;
}

/* It would not say this: of the queue alone, or of all. */
static void not_told(struct inspected *b, const struct config_consumer *config, const struct error *err)
{
	char section[80];
	if (err->status == ST_UNAVAILABLE || check_peer_exit_code(err) == EXIT_PERMISSION) {
		lose_management(b, err);
		return;
	}
	snprintf(section, sizeof(section), "consumer:%s", config->name);
	check_problem(b->check, check_peer_exit_code(err), config->queue_place, section, "queue",
		      "management_url: %s; what the queue does to its messages is not known", err->text);
}

static void open_management(struct inspected *b)
{
	const struct config_broker *config = b->config;
	struct error err = { 0 };
	if (!config->management_url)
		return;
	const struct management_params params = {
		.url = config->management_url,
		.user = b->address.user,
		.password = config->password ? config->password : b->address.password,
		.tls_ca_file = config->tls_ca_file,
		.tls_cert_file = config->tls_cert_file,
		.tls_key_file = config->tls_key_file,
		.tls_verify = config->tls_verify,
	};
	if (management_open(&b->management, &params, &err) != ST_OK) {
		lose_management(b, &err);
		return;
	}
	check_fact(b->check, b->subject.title, "RabbitMQ %s", management_version(b->management));
	if (b->address.tls && management_is_plain(b->management))
		check_warning(b->check, b->subject.place, b->subject.section, "management_url",
			      "is http:// where url is amqps://: the password can be read on its way");
}

/* False: not known. */
static bool ask_queue(struct inspected *b, const struct config_consumer *config, struct queue_facts *ret)
{
	struct error err = { 0 };
	if (!b->management)
		return false;
	const enum status st = management_queue(b->management, b->address.vhost, config->queue, ret, &err);
	if (st != ST_OK)
		not_told(b, config, &err);
	return st == ST_OK;
}

/* --- queues --- */

/* What was sent ahead waits for what is before it. */
static void tell_prefetch(struct check *c, const struct check_subject *s, const struct config_consumer *config,
			  const struct queue_setting *timeout)
{
	const int64_t ms = timeout->set ? timeout->number : CONSUMER_TIMEOUT_MS;
	check_fact(c, s->title,
		   "prefetch %" PRId64 ": a message may take %.3g s on average, else the last of them passes the "
		   "broker's consumer_timeout (%s%s)",
		   config->prefetch, (double)ms / 1000 / (double)config->prefetch,
		   timeout->set ? check_span(ms).text : "30 min unless it is set",
		   timeout->set ? " by a policy or an argument" : "");
}

static void check_queue(struct inspected *b, const struct config_consumer *config)
{
	static const struct queue_setting unknown;
	struct check *c = b->check;
	const struct check_subject s = check_subject_of("consumer", config->name, config->place);
	struct interlock_queue *known = &c->queues[config - c->config->consumers];
	struct queue_facts facts;
	struct error err = { 0 };
	uint32_t ready = 0;
	const enum status st = amqp_session_ready(b->session, config->queue, &ready, &err);
	if (st == ST_REFUSED && err.code == 404 && config->declare == DECLARE_YES) {
		check_fact(c, s.title, "queue %s does not exist yet: it will be made (declare = yes)", config->queue);
		return;
	}
	if (st == ST_REFUSED && err.code == 404) {
		check_problem(
			c, EXIT_CONFIGURATION, config->queue_place, s.section, "queue",
			"there is no queue %s on the broker: whoever publishes makes it, or effectd with declare = yes",
			config->queue);
		return;
	}
	if (st != ST_OK) {
		check_error(c, &s, config->queue_place, "queue", check_peer_exit_code(&err), &err);
		return;
	}
	const bool asked = ask_queue(b, config, &facts);
	check_fact(c, s.title, "queue %s has %u messages ready%s%s", config->queue, (unsigned)ready,
		   asked ? "" : "; its arguments and policies are not known",
		   asked || b->config->management_url ? "" : " without a management_url of the broker");
	tell_prefetch(c, &s, config, asked ? &facts.settings[QUEUE_CONSUMER_TIMEOUT] : &unknown);
	if (!asked)
		return;
	known->ttl_ms = facts.settings[QUEUE_MESSAGE_TTL].number;
	known->consumer_timeout_ms = facts.settings[QUEUE_CONSUMER_TIMEOUT].number;
	check_queue_facts(c, config, &facts);
	if (check_dead_letters(c, config, b->management, b->address.vhost, &facts, &err) != ST_OK)
		not_told(b, config, &err);
	queue_facts_finish(&facts);
}

/* False: reported. */
static bool open_broker(struct inspected *b)
{
	struct amqp_params params;
	struct error err = { 0 };
	params_of_broker(b->config, "effectd/check", &params);
	enum status st = amqp_address_parse(&b->address, b->config->url, &err);
	if (st == ST_OK)
		st = amqp_session_open(&b->session, &params, &wait_alone, &err);
	if (st != ST_OK) {
		check_error(b->check, &b->subject, b->subject.place, NULL, check_peer_exit_code(&err), &err);
		return false;
	}
	check_fact(b->check, b->subject.title, "logged in");
	open_management(b);
	return true;
}

void check_broker(struct check *c, const struct config_broker *config)
{
	struct inspected b = { .check = c,
			       .config = config,
			       .subject = check_subject_of("broker", config->name, config->place) };
	bool asked = false;
	for (size_t i = 0; i < c->config->consumer_count; i++) {
		const struct config_consumer *consumer = &c->config->consumers[i];
		if (consumer->broker != config)
			continue;
		if (!asked && !open_broker(&b))
			break;
		asked = true;
		check_queue(&b, consumer);
	}
	management_close(b.management);
	amqp_session_destroy(b.session);
	amqp_address_finish(&b.address);
}

/* effectd parked show: one message with everything that is kept of it. Nothing of it is shown raw on a terminal; --body
 * is for files and pipes. */
#include "amqp/properties.h"
#include "base/text.h"
#include "cli/parked.h"
#include "exact/park.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Of one row, $1. The order is that of printing. */
#define ROW_SQL                                                                                                        \
	"(SELECT $2::text AS database, p.id, p.consumer, p.message_key AS key, p.event_day, p.status, p.reason,"       \
	"  p.sqlstate, p.detail, p.attempts, p.crashes, p.deliveries,"                                                 \
	"  " ROWS_TIME_SQL("p.first_seen_at") " AS first_seen_at, " ROWS_TIME_SQL(                                     \
		"p.parked_at") " AS parked_at,"                                                                        \
			       "  " ROWS_TIME_SQL(                                                                     \
				       "p.next_attempt_at") " AS next_attempt_at,"                                     \
							    "  " ROWS_TIME_SQL(                                        \
								    "p.leased_until") " AS "                           \
										      "leased_until,"                  \
										      " " PARKED_IS_CLAIMED_SQL        \
										      " AS claimed,"                   \
										      "  " PARKED_IS_REFUSED_SQL       \
										      " AS "                           \
										      "beyond_window,"                 \
										      " " PARKED_IS_IN_WORK_SQL        \
										      " AS in_work,"                   \
										      "  encode(p.fingerprint, "       \
										      "'hex') AS fingerprint, "        \
										      "octet_length(p.body) AS "       \
										      "body_bytes"                     \
										      " FROM effectd.parked_messages " \
										      "AS p WHERE p.id = $1::bigint) " \
										      "AS t"

static const char json_sql[] = "SELECT to_json(t)::text FROM " ROW_SQL;
static const char lines_sql[] = "SELECT e.key, e.value FROM " ROW_SQL ", json_each_text(to_json(t)) AS e";

static const char message_sql[] = "SELECT properties, substring(body FOR $2::integer), octet_length(body)::bigint"
				  " FROM effectd.parked_messages WHERE id = $1::bigint";
enum { PROPERTIES, BODY, BODY_BYTES };

static const char body_sql[] = "SELECT substring(body FROM $2::integer FOR $3::integer)"
			       " FROM effectd.parked_messages WHERE id = $1::bigint";

enum { SHOWN_BODY = 64 * 1024, BODY_CHUNK = 8 * 1024 * 1024 };

struct view {
	struct cli *cli;
	const struct rows_choice *choice;
	bool body, found;
	struct buffer out, properties /* for JSON */;
	size_t headers; /* shown so far */
};

static const char *id_of(const struct view *v, char id[24])
{
	const size_t len = strlen(v->choice->ids) - 2; /* {17} */
	snprintf(id, 24, "%.*s", (int)len, v->choice->ids + 1);
	return id;
}

static void line(struct buffer *out, struct str name, struct str value)
{
	buffer_puts(out, "  ");
	const size_t start = out->len;
	cli_add_clean(out, name.data, name.len);
	const int used = (int)(out->len - start);
	buffer_printf(out, "%*s ", used < 20 ? 20 - used : 0, "");
	cli_add_clean(out, value.data, value.len);
	buffer_puts(out, "\n");
}

static struct str str_of(const char *s)
{
	return (struct str){ s, strlen(s) };
}

/* ---- text ---- */

static void property_line(void *arg, const char *name, const char *header, const char *value)
{
	struct view *v = arg;
	if (header && v->headers++ == 0)
		buffer_puts(&v->out, "headers\n");
	line(&v->out, str_of(header ? header : name), str_of(value));
}

/* Its lines, each indented. */
static void body_lines(struct buffer *out, struct str body, int64_t bytes)
{
	buffer_printf(out, "body, %" PRId64 " bytes\n", bytes);
	while (body.len > 0) {
		const char *end = memchr(body.data, '\n', body.len);
		const size_t len = end ? (size_t)(end - body.data) : body.len, gone = len + (end != NULL);
		buffer_puts(out, "  ");
		cli_add_clean(out, body.data, len);
		buffer_puts(out, "\n");
		body = (struct str){ body.data + gone, body.len - gone };
	}
}

static void message_text(struct view *v, struct str packed, struct str body, int64_t bytes)
{
	struct str exchange, routing_key, properties;
	buffer_puts(&v->out, "properties\n");
	if (!park_unpack(packed, &exchange, &routing_key, &properties)) {
		buffer_puts(&v->out, "  none are kept\n");
	} else {
		line(&v->out, STR("exchange"), exchange);
		line(&v->out, STR("routing_key"), routing_key);
		if (!amqp_properties_each(properties, property_line, v) && properties.len > 0)
			buffer_printf(&v->out, "  %zu bytes that cannot be decoded\n", properties.len);
	}
	body_lines(&v->out, body, bytes);
}

/* ---- JSON ---- */

static void property_json(void *arg, const char *name, const char *header, const char *value)
{
	struct view *v = arg;
	struct buffer *out = &v->properties;
	buffer_puts(out, out->len > 0 ? ", " : "");
	if (header)
		buffer_printf(out, "%s%s: ", v->headers++ == 0 ? "\"headers\": {" : "", header);
	else
		buffer_printf(out, "\"%s\": ", name);
	buffer_puts(out, value);
}

static void string_json(struct buffer *out, const char *name, struct str s)
{
	json_t *string = json_stringn(s.data ? s.data : "", s.len); /* NULL: not UTF-8 */
	AUTOFREE char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
	json_decref(string);
	if (text) {
		buffer_printf(out, ", \"%s\": %s", name, text);
		return;
	}
	buffer_printf(out, ", \"%s_hex\": \"", name);
	for (size_t i = 0; i < s.len; i++)
		buffer_printf(out, "%02x", (unsigned char)s.data[i]);
	buffer_puts(out, "\"");
}

/* Members that follow those of the row. */
static void message_json(struct view *v, struct str packed, struct str body, int64_t bytes)
{
	struct str exchange, routing_key, properties;
	if (park_unpack(packed, &exchange, &routing_key, &properties)) {
		string_json(&v->out, "exchange", exchange);
		string_json(&v->out, "routing_key", routing_key);
		if (amqp_properties_each(properties, property_json, v) || properties.len == 0)
			buffer_printf(&v->out, ", \"properties\": {%s%s}", buffer_text(&v->properties),
				      v->headers ? "}" : "");
		else
			buffer_puts(&v->out, ", \"properties\": null");
	}
	if ((int64_t)body.len < bytes) /* cut, maybe in the middle of a character */
		body.len = text_utf8_cut(body.data, body.len, body.len);
	string_json(&v->out, "body", body);
	buffer_printf(&v->out, ", \"body_complete\": %s}\n", (int64_t)body.len == bytes ? "true" : "false");
}

static enum status show_row(struct view *v, struct pg_session *s, const char *const *params, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, v->cli->json ? json_sql : lines_sql, params, 2, &r, err);
	v->found = st == ST_OK && r.rows > 0;
	if (!v->found)
		return st;
	if (v->cli->json) {
		const struct str row = rows_text(&r, 0, 0);
		buffer_add(&v->out, row.data, row.len - 1); /* without the last } */
		return ST_OK;
	}
	for (int i = 0; i < r.rows; i++)
		if (rows_text(&r, i, 1).data)
			line(&v->out, rows_text(&r, i, 0), rows_text(&r, i, 1));
	return ST_OK;
}

static enum status show(struct view *v, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	char id[24], shown[16];
	struct pg_result r;
	id_of(v, id);
	snprintf(shown, sizeof(shown), "%d", SHOWN_BODY);
	enum status st = show_row(v, s, (const char *const[]){ id, at->database }, err);
	if (st != ST_OK || !v->found)
		return st;
	st = pg_query(s, message_sql, (const char *const[]){ id, shown }, 2, &r, err);
	v->found = st == ST_OK && r.rows > 0;
	if (!v->found)
		return st;
	const struct str packed = rows_text(&r, 0, PROPERTIES), body = rows_text(&r, 0, BODY);
	const int64_t bytes = pg_value_int8(&r, 0, BODY_BYTES);
	if (v->cli->json)
		message_json(v, packed, body, bytes);
	else
		message_text(v, packed, body, bytes);
	if (bytes > SHOWN_BODY)
		cli_message(v->cli, "the first %d bytes of the body are shown: --body writes them all", SHOWN_BODY);
	return ST_OK;
}

static enum status write_body(struct view *v, struct pg_session *s, struct error *err)
{
	char id[24], from[16], chunk[16];
	id_of(v, id);
	snprintf(chunk, sizeof(chunk), "%d", BODY_CHUNK);
	for (size_t done = 0;;) {
		struct pg_result r;
		snprintf(from, sizeof(from), "%zu", done + 1);
		const enum status st = pg_query(s, body_sql, (const char *const[]){ id, from, chunk }, 3, &r, err);
		if (st != ST_OK)
			return st;
		if (r.rows == 0 && done > 0)
			return error_set(err, ST_REFUSED, "the message went away meanwhile: its body is in pieces");
		v->found = r.rows > 0;
		if (!v->found)
			return ST_OK;
		const struct str part = rows_text(&r, 0, 0);
		if (part.len > 0 && fwrite(part.data, 1, part.len, stdout) != part.len)
			return error_errno(err, ST_REFUSED, errno, "writing to stdout");
		done += part.len;
		if (part.len < BODY_CHUNK)
			return fflush(stdout) == 0 ? ST_OK : error_errno(err, ST_REFUSED, errno, "writing to stdout");
	}
}

static enum status on_database(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	struct view *v = arg;
	return v->body ? write_body(v, s, err) : show(v, s, at, err);
}

int parked_show(struct cli *cli, const struct rows_choice *choice, bool body)
{
	struct view v = { .cli = cli, .choice = choice, .body = body };
	const int rc = rows_on_databases(cli, &parked_table, choice, on_database, &v);
	const int printed = v.found && rc == EXIT_FINE && !body ? cli_print(cli, &v.out) : EXIT_FINE;
	buffer_finish(&v.out);
	buffer_finish(&v.properties);
	if (rc != EXIT_FINE)
		return rc;
	if (!v.found)
		cli_message(cli, "there is no parked message with this id: it was applied or dropped, or never was");
	return v.found ? printed : EXIT_FAILED;
}

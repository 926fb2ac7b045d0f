/* How commands reach the daemon: a pid file, locked while it lives, and a unix socket beside it, both in runtime_dir.
 *
 * One connection is one request, a line, and its answer, JSON until the end. Whoever may open the socket (mode 0660)
 * may ask and reload: it reads the same files as before, and gives no secrets away. A client that neither sends nor
 * reads is given up after a second. */
#ifndef RUN_CONTROL_H
#define RUN_CONTROL_H

#include "base/buffer.h"
#include "base/error.h"

struct control;

/* ST_UNAVAILABLE: another effectd lives there. ST_INVALID: the folder cannot be used. What a dead one left is replaced;
 * the folder is made if only it is missing. */
enum status control_open(struct control **ret, const char *runtime_dir, struct error *err) MUST_USE;
void control_close(struct control *c);   /* removes both files; NULL is fine */
int control_fd(const struct control *c); /* readable: a request waits */

struct control_request {
	int fd;
	char line[64];
};

/* False: there was none, or it was no line. */
bool control_accept(struct control *c, struct control_request *ret) MUST_USE;
void control_answer(struct control_request *r, const char *text); /* and the end of it */

/* The other side. ST_UNAVAILABLE: no effectd answers there. */
enum status control_ask(const char *runtime_dir, const char *line, struct buffer *answer, struct error *err) MUST_USE;

#endif

/* What every libcurl handle of ours has in common, whoever it calls. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>

struct client_tls {
	const char *ca_file;              /* the only authorities; NULL: the system's */
	const char *cert_file, *key_file; /* both or neither */
	bool verify;
};

/* No signals, no redirects, no .netrc, TLS 1.2 or later, no more than 5 s to connect. error: CURL_ERROR_SIZE bytes that
 * live as long as easy; libcurl copies the rest. False: it refuses an option, or there is no memory. */
bool client_set_up(CURL *easy, char *error, const struct client_tls *tls);

#endif

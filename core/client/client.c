#include "client/client.h"

enum { CONNECT_TIMEOUT_MS = 5000 };

bool client_set_up(CURL *easy, char *error, const struct client_tls *tls)
{
	bool good = true;
#define SET(option, value) good = good && curl_easy_setopt(easy, option, value) == CURLE_OK
	SET(CURLOPT_ERRORBUFFER, error);
	SET(CURLOPT_NOSIGNAL, 1L);
	/* A name server that does not answer: a call that is over does not wait for the thread that asks it. */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, tls->verify ? 1L : 0L);
	SET(CURLOPT_SSL_VERIFYHOST, tls->verify ? 2L : 0L);
	if (tls->ca_file) {
		SET(CURLOPT_CAINFO, tls->ca_file);
		SET(CURLOPT_CAPATH, (char *)NULL); /* or the system's authorities would do as well */
	}
	if (tls->cert_file) {
		SET(CURLOPT_SSLCERT, tls->cert_file);
		SET(CURLOPT_SSLKEY, tls->key_file);
	}
#undef SET
	return good;
}

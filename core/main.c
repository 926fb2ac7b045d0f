/* Nothing but the way in. */
#include "cli/cli.h"
#include <fcntl.h>

/* Whoever starts a program without stdin, stdout or stderr gives their numbers to the first files that it opens. With
 * a server's connection under number 1, a plugin's printf() would write into it. Opened the wrong way round, so that
 * using them is an error, as it was. */
static bool occupy_standard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	return occupy_standard_streams() ? cli_main(argc, argv) : EXIT_INTERNAL;
}

/* Folders for plugins, made under /tmp: its sticky bit is one of the things that the loader must accept. */
#include "place.h"
#include <dirent.h>

int place_setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	assert_non_null(p);
	strcpy(p->dir, "/tmp/effectd-abi-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	*state = p;
	return 0;
}

int place_teardown(void **state)
{
	struct place *p = *state;
	DIR *dir = opendir(p->dir);
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			remove(place_path(p, e->d_name));
	if (dir)
		closedir(dir);
	rmdir(p->dir);
	free(p);
	return 0;
}

const char *place_path(const struct place *p, const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	return path;
}

void place_write(const struct place *p, const char *name, const void *data, size_t len)
{
	FILE *f = fopen(place_path(p, name), "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(place_path(p, name), 0644), 0);
}

char *place_read_built(const char *built, size_t *ret_len)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s.so", getenv("ABI_PLUGINS"), built);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*ret_len = (size_t)ftell(f);
	rewind(f);
	char *data = malloc(*ret_len);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, *ret_len, f), *ret_len);
	fclose(f);
	return data;
}

void place_copy(const struct place *p, const char *built, const char *name, mode_t mode)
{
	size_t len;
	char *data = place_read_built(built, &len);
	place_write(p, name, data, len);
	free(data);
	assert_int_equal(chmod(place_path(p, name), mode), 0);
}

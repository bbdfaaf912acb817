// The yardstick of the benchmarks on GUSLI: random reads of 4 KiB straight through the client library, with no fio and no engine.
// usage: gusli-loop F|K FILE BYTES DEPTH SECONDS|0 (0: one read). GPUIO_GUSLI_LIBRARY names the library. Prints what fio would of one job.
//
// The declarations are our own, of the part of the interface that is used, as in libgpuio's src/gusli.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <vector>

struct Id { char name[16] = "g"; };
struct Range { void *start; uint64_t bytes; };
struct Init { FILE *log; const char *config, *client; unsigned most; };
struct Info { char name[32]; int32_t descriptor; uint32_t block; uint64_t blocks; uint16_t most, flags; };
struct Request {
	void *buffer;
	uint64_t bytes, offset;
	int32_t descriptor;
	uint8_t operation, priority;
	uint16_t flags;
	void (*callback)(void *);
	void *context, *executor;
	int64_t result;
};
constexpr uint16_t CHECKED = 1, POLLED = 8, NO_ID = 0x7ff << 5;
constexpr uint64_t BLOCK = 4096;

static void *library;
template <class F> static F *function(const char *name) {
	void *found = dlsym(library, name);
	if (!found) { fprintf(stderr, "gusli-loop: no %s\n", name); exit(1); }
	return reinterpret_cast<F *>(found);
}
static double now() {
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int, char **words) {
	const uint64_t blocks = strtoull(words[3], nullptr, 10) / BLOCK;
	const unsigned depth = atoi(words[4]);
	const double seconds = atof(words[5]);
	library = dlopen(getenv("GPUIO_GUSLI_LIBRARY"), RTLD_NOW);
	if (!library) { fprintf(stderr, "gusli-loop: %s\n", dlerror()); return 1; }
#define CONTEXT "_ZNK5gusli19global_clnt_context"
#define BUFFERS "ERKNS_15backend_bdev_idERKSt6vectorINS_11io_buffer_tESaIS5_EE"
	auto construct = function<void(void *, const Init &)>("_ZN5gusli19global_clnt_contextC1ERKNS0_11init_paramsE");
	auto destroy = function<void(void *)>("_ZN5gusli19global_clnt_contextD1Ev");
	auto connect = function<int(void *, const Id &)>(CONTEXT "12bdev_connectERKNS_15backend_bdev_idE");
	auto disconnect = function<int(void *, const Id &)>(CONTEXT "15bdev_disconnectERKNS_15backend_bdev_idE");
	auto info_of = function<int(void *, const Id &, Info &)>(CONTEXT "13bdev_get_infoERKNS_15backend_bdev_idERNS_9bdev_infoE");
	auto add = function<int(void *, const Id &, const std::vector<Range> &)>(CONTEXT "18bdev_bufs_register" BUFFERS);
	auto remove = function<int(void *, const Id &, const std::vector<Range> &)>(CONTEXT "18bdev_bufs_unregist" BUFFERS);
	auto submit = function<void(Request *)>("_ZN5gusli15io_request_base9submit_ioEv");
	auto error = function<int(Request *)>("_ZN5gusli15io_request_base9get_errorEv");
	auto done = function<void(Request *)>("_ZN5gusli15io_request_base4doneEv");

	char context;
	const std::string config = std::string("# \nversion=1\ng ") + words[1] + " W N " + words[2] + " -\n";
	construct(&context, Init{stderr, config.c_str(), "loop", 256});
	const Id id;
	Info info;
	if (connect(&context, id) != 0 || info_of(&context, id, info) != 0) { fprintf(stderr, "gusli-loop: cannot connect %s\n", words[2]); return 1; }
	const uint64_t bytes = depth * BLOCK;
	char *memory = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	const std::vector<Range> ranges{{memory, bytes}};
	if (add(&context, id, ranges) != 0) { fprintf(stderr, "gusli-loop: cannot register\n"); return 1; }

	std::vector<Request> requests(depth);
	uint64_t random = 88172645463325252u, count = 0, failed = 0;
	auto start = [&](unsigned n) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		requests[n] = Request{memory + n * BLOCK, BLOCK, random % blocks * BLOCK, info.descriptor, 'R', 0, CHECKED | POLLED | NO_ID, nullptr, nullptr, nullptr, 0};
		submit(&requests[n]);
	};
	const double began = now();
	double ended = began;
	unsigned out = 0, idle = 0;
	bool more = seconds > 0;
	std::vector<bool> flies(depth);
	for (unsigned n = 0; n < (more ? depth : 1); n++, out++)
		start(n), flies[n] = true;
	while (out > 0) {
		bool found = false;
		for (unsigned n = 0; n < depth; n++) {
			if (!flies[n])
				continue;
			const int code = error(&requests[n]);
			if (code == -1)
				continue;
			done(&requests[n]);
			found = true, count++, failed += code != 0;
			if (more && (count & 63) == 0)
				more = (ended = now()) - began < seconds;
			if (more)
				start(n);
			else
				flies[n] = false, out--;
		}
		// As libgpuio does by default: look 64 times, then let others run.
		idle = found ? 0 : idle + 1;
		if (idle >= 64)
			sched_yield();
	}
	ended = now();
	remove(&context, id, ranges);
	(void)disconnect(&context, id);
	destroy(&context);
	printf("{\"jobs\": [{\"error\": %d, \"read\": {\"iops\": %f, \"runtime\": %f, \"total_ios\": %lu}}]}\n", failed ? 5 : 0, count / (ended - began),
	       (ended - began) * 1e3, static_cast<unsigned long>(count));
	return 0;
}

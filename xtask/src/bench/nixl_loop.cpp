// The yardstick of the benchmarks on NIXL: random reads of 4 KiB straight through the library's plugin POSIX, with no fio and no engine.
// usage: nixl-loop QUEUE FILE BYTES DEPTH SECONDS|0 (0: one read). QUEUE is the plugin's parameter, use_aio say; with +direct, O_DIRECT.
// GPUIO_NIXL_LIBRARY names the library. Prints what fio would of one job.
//
// The declarations are our own, of the part of the interface that is used, as in libgpuio's src/nixl. A request is made for each read, since each
// is of another place.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using Object = void *;
constexpr int HOST = 0, FILES = 4, READ = 0, IN_FLIGHT = 1;
constexpr uint64_t BLOCK = 4096;

static void *library;
template <class F> static F *function(const char *name) {
	void *found = dlsym(library, (std::string("nixl_capi_") + name).c_str());
	if (!found) { fprintf(stderr, "nixl-loop: no %s\n", name); exit(1); }
	return reinterpret_cast<F *>(found);
}
static double now() {
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}
static void check(const char *what, int status) {
	if (status != 0) { fprintf(stderr, "nixl-loop: %s: %d\n", what, status); exit(1); }
}

int main(int, char **words) {
	std::string queue = words[1];
	const size_t plus = queue.find('+');
	const bool direct = plus != std::string::npos;
	queue = queue.substr(0, plus);
	const uint64_t blocks = strtoull(words[3], nullptr, 10) / BLOCK;
	const unsigned depth = atoi(words[4]);
	const double seconds = atof(words[5]);
	library = dlopen(getenv("GPUIO_NIXL_LIBRARY"), RTLD_NOW);
	if (!library) { fprintf(stderr, "nixl-loop: %s\n", dlerror()); return 1; }
	auto create_agent = function<int(const char *, Object *)>("create_agent");
	auto create_params = function<int(Object *)>("create_params");
	auto params_add = function<int(Object, const char *, const char *)>("params_add");
	auto create_backend = function<int(Object, const char *, Object, Object *)>("create_backend");
	auto create_options = function<int(Object *)>("create_opt_args");
	auto add_backend = function<int(Object, Object)>("opt_args_add_backend");
	auto create_registered = function<int(int, Object *)>("create_reg_dlist");
	auto add_registered = function<int(Object, uintptr_t, size_t, uint64_t, const void *, size_t)>("reg_dlist_add_desc");
	auto register_memory = function<int(Object, Object, Object)>("register_mem");
	auto create_list = function<int(int, Object *)>("create_xfer_dlist");
	auto add = function<int(Object, uintptr_t, size_t, uint64_t)>("xfer_dlist_add_desc");
	auto clear = function<int(Object)>("xfer_dlist_clear");
	auto create_request = function<int(Object, int, Object, Object, const char *, Object *, Object)>("create_xfer_req");
	auto post = function<int(Object, Object, Object)>("post_xfer_req");
	auto status_of = function<int(Object, Object)>("get_xfer_status");
	auto release = function<int(Object, Object)>("release_xfer_req");
	auto destroy = function<int(Object)>("destroy_xfer_req");

	Object agent, params, backend, options, memory_list, file_list, from, to;
	check("agent", create_agent("loop", &agent));
	check("parameters", create_params(&params));
	check("parameter", params_add(params, queue.c_str(), "true"));
	check("parameter", params_add(params, "ios_pool_size", words[4]));
	check("parameter", params_add(params, "kernel_queue_size", words[4]));
	check("plugin", create_backend(agent, "POSIX", params, &backend));
	check("options", create_options(&options));
	check("options", add_backend(options, backend));
	const int fd = open(words[2], direct ? O_RDONLY | O_DIRECT : O_RDONLY);
	char *memory = static_cast<char *>(mmap(nullptr, depth * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	memset(memory, 1, depth * BLOCK);
	check("memory", create_registered(HOST, &memory_list));
	check("memory", add_registered(memory_list, reinterpret_cast<uintptr_t>(memory), depth * BLOCK, 0, "", 0));
	check("memory", register_memory(agent, memory_list, options));
	check("file", create_registered(FILES, &file_list));
	check("file", add_registered(file_list, 0, blocks * BLOCK, fd, "", 0));
	check("file", register_memory(agent, file_list, options));
	check("list", create_list(HOST, &to));
	check("list", create_list(FILES, &from));

	std::vector<Object> requests(depth);
	uint64_t random = 88172645463325252u, count = 0, failed = 0;
	auto start = [&](unsigned n) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		clear(to), clear(from);
		add(to, reinterpret_cast<uintptr_t>(memory + n * BLOCK), BLOCK, 0);
		add(from, random % blocks * BLOCK, BLOCK, fd);
		check("request", create_request(agent, READ, to, from, "loop", &requests[n], options));
		if (post(agent, requests[n], options) < 0)
			failed++;
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
			const int status = status_of(agent, requests[n]);
			if (status == IN_FLIGHT)
				continue;
			release(agent, requests[n]), destroy(requests[n]);
			found = true, count++, failed += status != 0;
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
	printf("{\"jobs\": [{\"error\": %d, \"read\": {\"iops\": %f, \"runtime\": %f, \"total_ios\": %lu}}]}\n", failed ? 5 : 0, count / (ended - began),
	       (ended - began) * 1e3, static_cast<unsigned long>(count));
	fflush(stdout);
	_exit(0); // what the library has goes with the process
}

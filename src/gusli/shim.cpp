// What only C++ can do with GUSLI's client library: its constructor throws, and it takes vectors; and what only some C libraries can.
// Everything else is called from Rust.
//
// This is an object of its own, opened when a job asks for GUSLI, so that libgpuio itself needs no C++ library. The declarations are our own, of
// the part of the interface that is used; sizes and places were measured on the library in the wheel nixl-cu12 1.5.1 and are checked here.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <unistd.h>
#include <vector>

namespace {

struct DeviceId {
	char name[16];
};

struct DeviceInfo {
	char name[32];
	int32_t descriptor;
	uint32_t block_size;
	uint64_t blocks;
	uint16_t max_in_flight;
	uint16_t flags;
};

struct Range {
	void *start;
	uint64_t bytes;
};

struct Init {
	FILE *log;
	const char *config;
	const char *client;
	unsigned max_requests;
};

static_assert(sizeof(DeviceId) == 16 && sizeof(DeviceInfo) == 56 && sizeof(Range) == 16 && sizeof(Init) == 32, "not the interface");

// The library's functions, looked up by Rust in this order; `self` is the context, an empty object.
struct Calls {
	void (*construct)(void *self, const Init &);
	void (*destroy)(void *self) noexcept;
	int (*add_buffers)(const void *self, const DeviceId &, const std::vector<Range> &) noexcept;
	int (*remove_buffers)(const void *self, const DeviceId &, const std::vector<Range> &) noexcept;
};

// Gets what the library prints; true where the thread that prints it must not go on.
using Said = bool (*)(const char *text, size_t bytes);

FILE *stream;

ssize_t hand_over(void *said, const char *text, size_t bytes) {
	if (reinterpret_cast<Said>(said)(text, bytes)) {
		funlockfile(stream); // others still print
		for (;;)
			pause();
	}
	return static_cast<ssize_t>(bytes);
}

// The context's one address; only its identity counts.
char context;

void explain(char *why, size_t room, const char *text) {
	snprintf(why, room, "%s", text);
}

} // namespace

extern "C" {

// Makes the context, whose log goes to `said`. Returns 0, or -1 with the reason in `why`.
__attribute__((visibility("default"))) int gpuio_gusli_construct(const Calls *calls, const char *config, const char *client, unsigned max_requests,
                                                                Said said, char *why, size_t room) {
	cookie_io_functions_t functions = {};
	functions.write = hand_over;
	if (!stream) // the library writes to it for as long as the process lives
		stream = fopencookie(reinterpret_cast<void *>(said), "w", functions);
	if (!stream) {
		explain(why, room, "no memory for the library's log");
		return -1;
	}
	setvbuf(stream, nullptr, _IONBF, 0);
	try {
		calls->construct(&context, Init{stream, config, client, max_requests});
		return 0;
	} catch (const std::exception &error) {
		explain(why, room, error.what());
	} catch (...) {
		explain(why, room, "an exception of unknown kind");
	}
	return -1;
}

__attribute__((visibility("default"))) void gpuio_gusli_destroy(const Calls *calls) {
	calls->destroy(&context);
}

__attribute__((visibility("default"))) int gpuio_gusli_add_buffer(const Calls *calls, const DeviceId *id, void *start, uint64_t bytes) {
	try {
		return calls->add_buffers(&context, *id, {Range{start, bytes}});
	} catch (...) {
		return -1;
	}
}

__attribute__((visibility("default"))) int gpuio_gusli_remove_buffer(const Calls *calls, const DeviceId *id, void *start, uint64_t bytes) {
	try {
		return calls->remove_buffers(&context, *id, {Range{start, bytes}});
	} catch (...) {
		return -1;
	}
}

// How large the stacks of threads are that ask for no size: makes them smaller where they are larger than `most`. Returns what they were, or 0
// where nothing was changed.
__attribute__((visibility("default"))) size_t gpuio_gusli_limit_stacks(size_t most) {
	size_t before = 0;
#ifdef __GLIBC__
	pthread_attr_t usual;
	if (pthread_getattr_default_np(&usual) != 0)
		return 0;
	if (pthread_attr_getstacksize(&usual, &before) != 0 || before <= most || pthread_attr_setstacksize(&usual, most) != 0 ||
	    pthread_setattr_default_np(&usual) != 0)
		before = 0;
	pthread_attr_destroy(&usual);
#endif
	return before;
}

// Undoes it: `before` is what it has returned.
__attribute__((visibility("default"))) void gpuio_gusli_restore_stacks(size_t before) {
#ifdef __GLIBC__
	pthread_attr_t usual;
	if (pthread_getattr_default_np(&usual) != 0)
		return;
	if (pthread_attr_setstacksize(&usual, before) == 0)
		pthread_setattr_default_np(&usual);
	pthread_attr_destroy(&usual);
#endif
}

} // extern "C"

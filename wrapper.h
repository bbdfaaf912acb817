/* What the layout tables are made of: read by bindgen from a configured fio source tree. */
#include "config-host.h"

#include "fio.h"
#include "io_ddir.h"
#include "io_u.h"
#include "ioengines.h"
#include "thread_options.h"

/* A macro over an enumerator from 3.38 on, which bindgen does not evaluate; an enumerator of our own it does. */
enum { GPUIO_TD_ENG_FLAG_SHIFT = TD_ENG_FLAG_SHIFT };

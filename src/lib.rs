//! fio ioengine.

//! The tables of fio struct layouts.

// A client's life: connect, warm up, measure, write the calls down.
#pragma once

#include "spec.h"

// Prints all its events but errors. Throws when its input ends before the measurement does.
void Measure(const Spec& spec);

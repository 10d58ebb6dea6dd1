#include "cohort/cli/main.h"

int main(int argc, char** argv) { return cohort::cli::main(argc, argv); }

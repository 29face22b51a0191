#include "base/version.h"

#include <revision.h>  // made by the build

namespace pmnet {

std::string version() { return PMNET_VERSION; }

std::string source_revision() { return PMNET_GIT_DESCRIBE; }

std::string build_description() { return PMNET_COMPILER ", " PMNET_BUILD_TYPE; }

}  // namespace pmnet

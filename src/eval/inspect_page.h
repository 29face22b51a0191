#pragma once
#include <string>
#include <vector>

#include "eval/inspect.h"
#include "report/html_page.h"

namespace pmnet {

struct InspectionNames {
  std::string model, text;
};

// The page of `pmnet inspect`: the course of the text, the text itself, the tree and the phases of the slots.
HtmlPage inspection_page(const Inspection& inspection, const std::vector<SlotName>& slots,
                         const InspectionNames& names);

}  // namespace pmnet

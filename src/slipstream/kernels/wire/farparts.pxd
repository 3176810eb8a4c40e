cpdef tuple far_parts(list far, dict groups)

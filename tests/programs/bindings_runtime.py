"""cuda.bindings.runtime, which has NVIDIA's static runtime inside: copies, pools, advice, user objects of graphs."""

import ctypes

import numpy as np
from cuda.bindings import driver, runtime


def checked(result):
    if result[0].value:
        raise SystemExit(f"{result[0]}")
    return result[1] if len(result) == 2 else result[1:]


host, back = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
device = checked(runtime.cudaMalloc(host.nbytes))
to_device, to_host = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
checked(runtime.cudaMemcpy(device, host.ctypes.data, host.nbytes, to_device))
checked(runtime.cudaMemcpy(back.ctypes.data, device, host.nbytes, to_host))
print((back == host).all(), checked(runtime.cudaGetDeviceProperties(0)).name.decode())

props = driver.CUmemPoolProps()
props.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_MANAGED
pool = checked(driver.cuMemPoolCreate(props))
managed = checked(driver.cuMemAllocFromPoolAsync(4096, pool, 0))
ctypes.memset(int(managed), 7, 4096)  # the host may touch it
used = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
place = driver.CUmemLocation()
place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
checked(driver.cuMemAdvise(managed, 2048, driver.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place))
wanted = driver.CUmem_range_attribute.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
said = [int(checked(driver.cuMemRangeGetAttribute(4, wanted, managed, size))) for size in (2048, 4096)]
print(int(checked(driver.cuMemPoolGetAttribute(pool, used))), said, driver.cuMemAdvise(int(device), 64, 1, place)[0].name)

ended = []
destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended.append)
held = checked(driver.cuUserObjectCreate(5, ctypes.cast(destroy, ctypes.c_void_p).value, 1, 1))
graph = checked(driver.cuGraphCreate(0))
checked(driver.cuGraphRetainUserObject(graph, held, 1, 1))
executable = checked(driver.cuGraphInstantiate(graph, 0))
checked(driver.cuGraphDestroy(graph))
before = list(ended)
checked(driver.cuGraphExecDestroy(executable))
print(before, ended)

newer = getattr(runtime, "cudaGraphGetId", None)  # of a runtime that is newer than smemsim's
print(newer is None or int(newer(0)[0]) == 801)

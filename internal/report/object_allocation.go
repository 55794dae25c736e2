package report

import "wirelab.dev/internal/analysis"

// AllocationObject is where the heap allocations of one end come from, by trials that
// were profiled for it and measured for nothing else. Shares are of all that this end
// allocates.
type AllocationObject struct {
	Part           string            `json:"part"`
	Variant        string            `json:"variant"`
	Workload       string            `json:"workload"`
	RequestBytes   int               `json:"request_bytes"`
	ResponseBytes  int               `json:"response_bytes"`
	Clients        int               `json:"clients"`
	End            string            `json:"end" jsonschema:"enum=client,enum=server"` // client or server
	Trials         int               `json:"trials"`
	Calls          int64             `json:"calls"` // of all trials
	BytesPerCall   Number            `json:"bytes_per_call"`
	ObjectsPerCall Number            `json:"objects_per_call"`
	Functions      []AllocatorObject `json:"functions"` // that allocate by themselves, those of the most bytes first
	Tree           []BranchObject    `json:"tree"`      // the call trees that allocate, those of the most bytes first
}

// AllocatorObject is a function that allocates by itself.
type AllocatorObject struct {
	Function     string `json:"function"` // with its package's path
	BytesShare   Number `json:"bytes_share"`
	ObjectsShare Number `json:"objects_share"`
}

// BranchObject is functions of which each calls the next and, as far as allocations
// go, nothing else.
type BranchObject struct {
	Functions    []string       `json:"functions"`
	BytesShare   Number         `json:"bytes_share"` // with all that is called
	ObjectsShare Number         `json:"objects_share"`
	Calls        []BranchObject `json:"calls"` // by the last of the functions
}

func allocationObject(a *analysis.Allocation) AllocationObject {
	return AllocationObject{
		Part: a.Part, Variant: a.Variant, Workload: a.Workload,
		RequestBytes: a.RequestBytes, ResponseBytes: a.ResponseBytes, Clients: a.Clients,
		End: a.End, Trials: a.Trials, Calls: a.Calls,
		BytesPerCall: Number(a.Bytes), ObjectsPerCall: Number(a.Objects),
		Functions: each(a.Functions, func(f *analysis.Allocator) AllocatorObject {
			return AllocatorObject{Function: f.Function, BytesShare: Number(f.Bytes), ObjectsShare: Number(f.Objects)}
		}),
		Tree: each(a.Tree, branchObject),
	}
}

func branchObject(b *analysis.Branch) BranchObject {
	return BranchObject{Functions: b.Functions, BytesShare: Number(b.Bytes), ObjectsShare: Number(b.Objects), Calls: each(b.Calls, branchObject)}
}

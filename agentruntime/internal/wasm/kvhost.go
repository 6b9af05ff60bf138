package wasm

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Results of the store's functions; see [kv].
const (
	kvOK        = 0
	kvNoKey     = -1
	kvDenied    = -2
	kvMalformed = -3
	kvFull      = -4
	kvFailed    = -5
	kvPointer   = -6
)

// kvFuncs are the functions of agentos:kv/store.
var kvFuncs = [...]string{"get", "put", "delete", "list-keys"}

// hostKV provides the store to modules under the name that the module imports.
func hostKV(ctx context.Context, rt wazero.Runtime, name string, kv *kv) error {
	get := func(_ context.Context, m api.Module, key, keyLen, buf, bufLen uint32) int32 {
		k, ok := m.Memory().Read(key, keyLen)
		if !ok {
			return kvPointer
		}
		value, found, err := kv.Get(string(k))
		if err == nil && !found {
			return kvNoKey
		}
		return answer(m, value, err, buf, bufLen)
	}

	list := func(_ context.Context, m api.Module, prefix, prefixLen, buf, bufLen uint32) int32 {
		p, ok := m.Memory().Read(prefix, prefixLen)
		if !ok {
			return kvPointer
		}
		keys, err := kv.Keys(string(p))
		if err != nil {
			return kvCode(err)
		}
		doc, err := json.Marshal(keys)
		return answer(m, doc, err, buf, bufLen)
	}
	put := func(_ context.Context, m api.Module, key, keyLen, value, valueLen uint32) int32 {
		k, ok := m.Memory().Read(key, keyLen)
		v, ok2 := m.Memory().Read(value, valueLen)
		if !ok || !ok2 {
			return kvPointer
		}
		return kvCode(kv.Put(string(k), v))
	}
	del := func(_ context.Context, m api.Module, key, keyLen uint32) int32 {
		k, ok := m.Memory().Read(key, keyLen)
		if !ok {
			return kvPointer
		}
		return kvCode(kv.Delete(string(k)))
	}
	b := rt.NewHostModuleBuilder(name)
	for i, fn := range []any{get, put, del, list} {
		b = b.NewFunctionBuilder().WithFunc(fn).Export(kvFuncs[i])
	}
	_, err := b.Instantiate(ctx)
	return err
}

// answer writes data into the guest's buffer if it fits, and returns its length.
func answer(m api.Module, data []byte, err error, buf, bufLen uint32) int32 {
	switch {
	case err != nil:
		return kvCode(err)
	case uint64(len(data)) <= uint64(bufLen) && !m.Memory().Write(buf, data):
		return kvPointer
	}
	return int32(len(data)) // the store's bounds are far below 2^31
}

func kvCode(err error) int32 {
	switch {
	case err == nil:
		return kvOK
	case errors.Is(err, ErrKVDenied):
		return kvDenied
	case errors.Is(err, ErrKVKey):
		return kvMalformed
	case errors.Is(err, ErrKVFull):
		return kvFull
	}
	return kvFailed
}

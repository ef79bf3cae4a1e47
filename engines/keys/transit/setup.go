package main

// What an operator sets up before the gateway: the mount of the engine, policies, and Vault's own AppRole engine.

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-uuid"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/sdk/logical"
)

func (f *frame) serveSys(w http.ResponseWriter, r *http.Request) {
	path, body := strings.TrimPrefix(r.URL.Path, "/v1/sys/"), map[string]any{}
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body)
	if r.Header.Get("X-Vault-Token") != f.root {
		fail(w, 403, "permission denied")
		return
	}
	name, isPolicy := strings.CutPrefix(path, "policies/acl/")
	text, isText := body["policy"].(string)
	switch {
	case path == "mounts/transit" && body["type"] == "transit": // It is there from the start.
		answer(w, 204, nil)
	case path == "auth/approle" && body["type"] == "approle":
		store, view := &logical.InmemStorage{}, logical.TestSystemView()
		view.DefaultLeaseTTLVal, view.MaxLeaseTTLVal = time.Hour, time.Hour
		engine, err := approle.Factory(context.Background(), &logical.BackendConfig{StorageView: store, System: view, Logger: hclog.NewNullLogger(), BackendUUID: "approle"})
		if err != nil {
			fail(w, 500, err.Error())
			return
		}
		f.Lock()
		f.approle = &mounted{engine, store}
		f.Unlock()
		answer(w, 204, nil)
	case isPolicy && isText:
		f.Lock()
		f.policies[name] = text
		f.Unlock()
		answer(w, 204, nil)
	default:
		fail(w, 404, "no handler for route \""+r.URL.Path+"\"")
	}
}

// serveAppRole asks the AppRole engine once it is enabled; its tokens have the policies of the role.
func (f *frame) serveAppRole(w http.ResponseWriter, r *http.Request) {
	f.Lock()
	at := f.approle
	f.Unlock()
	if at == nil {
		f.serveAuth(w, r)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/auth/approle/")
	if path != "login" && r.Header.Get("X-Vault-Token") != f.root {
		fail(w, 403, "permission denied")
		return
	}
	req := &logical.Request{Path: path, Storage: at.store, Data: map[string]any{}, Operation: logical.ReadOperation, MountPoint: "auth/approle/", Connection: &logical.Connection{RemoteAddr: "127.0.0.1"}}
	if r.Method != "GET" {
		req.Operation = logical.UpdateOperation
		_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req.Data)
		if checked, exists, err := at.engine.HandleExistenceCheck(r.Context(), req); err == nil && checked && !exists {
			req.Operation = logical.CreateOperation
		}
	}
	resp, err := at.engine.HandleRequest(r.Context(), req)
	switch {
	case err != nil:
		fail(w, 400, err.Error())
	case resp == nil:
		answer(w, 204, nil)
	case resp.IsError():
		fail(w, 400, resp.Error().Error())
	case resp.Auth != nil:
		drawn, _ := uuid.GenerateUUID()
		token := "hvs." + drawn
		f.Lock()
		f.grants[token] = &grant{until: time.Now().Add(resp.Auth.TTL), renewable: resp.Auth.Renewable, policies: resp.Auth.Policies}
		f.Unlock()
		answer(w, 200, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": int(resp.Auth.TTL.Seconds()), "renewable": resp.Auth.Renewable, "policies": resp.Auth.Policies}})
	default:
		answer(w, 200, map[string]any{"data": resp.Data})
	}
}

var rule = regexp.MustCompile(`path\s+"([^"]+)"\s*\{\s*capabilities\s*=\s*\[([^\]]*)\]`)

// allowed reads the rules of a token's policies: a path that may end with "*", and its capabilities.
func (f *frame) allowed(token, path, operation string) bool {
	f.Lock()
	defer f.Unlock()
	held := f.grants[token]
	if held == nil || held.policies == nil {
		return true
	}
	for _, name := range held.policies {
		for _, found := range rule.FindAllStringSubmatch(f.policies[name], -1) {
			prefix, isGlob := strings.CutSuffix(found[1], "*")
			if (path == prefix || isGlob && strings.HasPrefix(path, prefix)) && strings.Contains(found[2], `"`+operation+`"`) {
				return true
			}
		}
	}
	return false
}

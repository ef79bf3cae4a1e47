// Vault's transit engine itself, without the core around it: in-memory storage, HTTP as Vault and OpenBao speak it. A test peer only.
// vault-transit ADDR TOKEN
//
// From the engine: /v1/transit/. Made here, with the answers of the core: tokens with a life, logins of AppRole ("role", "secret") and
// Kubernetes ("sluice", "jwt"), namespaces (each with an engine of its own), and the policy that keys named forbidden-* are refused.
// For the commands of docs/operations.md (setup.go): POST /v1/sys/auth/approle puts Vault's own AppRole engine in place of the login above,
// and its tokens may do what the policies of /v1/sys/policies/acl/ allow.
// Only for tests: GET /frame/requests counts the requests of the engine by action, POST /frame/life sets the seconds of new tokens and
// whether they renew, POST /frame/revoke ends all tokens of logins.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-uuid"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/logical"
)

type mounted struct {
	engine logical.Backend
	store  logical.Storage
}

type grant struct {
	until     time.Time
	renewable bool
	policies  []string // nil: everything
}

type frame struct {
	sync.Mutex
	root      string
	engines   map[string]*mounted
	grants    map[string]*grant
	requests  map[string]int
	life      time.Duration
	renewable bool
	approle   *mounted
	policies  map[string]string
}

func (f *frame) engine(namespace string) (*mounted, error) {
	f.Lock()
	defer f.Unlock()
	if found := f.engines[namespace]; found != nil {
		return found, nil
	}
	ctx, store, view := context.Background(), &logical.InmemStorage{}, logical.TestSystemView()
	view.DefaultLeaseTTLVal, view.MaxLeaseTTLVal = time.Hour, time.Hour
	engine, err := transit.Factory(ctx, &logical.BackendConfig{StorageView: store, System: view, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error}), BackendUUID: "transit" + namespace})
	if err != nil {
		return nil, err
	}
	if err = engine.Initialize(ctx, &logical.InitializationRequest{Storage: store}); err != nil {
		return nil, err
	}
	f.engines[namespace] = &mounted{engine, store}
	return f.engines[namespace], nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func fail(w http.ResponseWriter, status int, messages ...string) {
	if messages == nil {
		messages = []string{}
	}
	answer(w, status, map[string]any{"errors": messages})
}

func (f *frame) valid(token string) bool {
	f.Lock()
	defer f.Unlock()
	held := f.grants[token]
	return token == f.root || held != nil && time.Now().Before(held.until)
}

// auth answers logins and renewals.
func (f *frame) auth(w http.ResponseWriter, token string) {
	f.Lock()
	defer f.Unlock()
	held := f.grants[token]
	if held == nil {
		held = &grant{renewable: f.renewable}
		f.grants[token] = held
	}
	held.until = time.Now().Add(f.life)
	answer(w, 200, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": int(f.life.Seconds()), "renewable": held.renewable, "policies": []string{"sluice"}}})
}

func (f *frame) serveAuth(w http.ResponseWriter, r *http.Request) {
	token, body := r.Header.Get("X-Vault-Token"), map[string]any{}
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body)
	drawn, _ := uuid.GenerateUUID()
	switch strings.TrimPrefix(r.URL.Path, "/v1/auth/") {
	case "approle/login":
		if body["role_id"] != "role" || body["secret_id"] != "secret" {
			fail(w, 400, "invalid role or secret ID")
			return
		}
		f.auth(w, "hvs."+drawn)
	case "kubernetes/login":
		if body["role"] != "sluice" || body["jwt"] != "jwt" {
			fail(w, 403, "permission denied")
			return
		}
		f.auth(w, "hvs."+drawn)
	case "token/lookup-self":
		if !f.valid(token) {
			fail(w, 403, "permission denied", "invalid token")
			return
		}
		ttl, renewable := 0, false
		f.Lock()
		if held := f.grants[token]; held != nil {
			ttl, renewable = int(time.Until(held.until).Seconds()), held.renewable
		}
		f.Unlock()
		answer(w, 200, map[string]any{"data": map[string]any{"id": token, "ttl": ttl, "renewable": renewable}})
	case "token/renew-self":
		if !f.valid(token) {
			fail(w, 403, "permission denied", "invalid token")
			return
		}
		f.auth(w, token)
	default:
		fail(w, 404, "no handler for route \""+r.URL.Path+"\"")
	}
}

func (f *frame) serveFrame(w http.ResponseWriter, r *http.Request) {
	f.Lock()
	defer f.Unlock()
	switch r.URL.Path {
	case "/frame/requests":
		answer(w, 200, f.requests)
	case "/frame/life":
		seconds, _ := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
		f.life, f.renewable = time.Duration(seconds*float64(time.Second)), r.URL.Query().Get("renewable") != "false"
		answer(w, 204, nil)
	case "/frame/revoke":
		f.grants = map[string]*grant{}
		answer(w, 204, nil)
	default:
		fail(w, 404)
	}
}

func (f *frame) serveTransit(w http.ResponseWriter, r *http.Request) {
	path, token := strings.TrimPrefix(r.URL.Path, "/v1/transit/"), r.Header.Get("X-Vault-Token")
	action, name, _ := strings.Cut(path, "/")
	denied := func() { fail(w, 403, "1 error occurred:\n\t* permission denied\n\n") }
	if !f.valid(token) || strings.HasPrefix(name, "forbidden-") && token != f.root {
		denied()
		return
	}
	f.Lock()
	f.requests[action]++
	f.Unlock()
	at, err := f.engine(r.Header.Get("X-Vault-Namespace"))
	if err != nil {
		fail(w, 500, err.Error())
		return
	}
	req := &logical.Request{Path: path, Storage: at.store, Data: map[string]any{}, ClientToken: token, MountPoint: "transit/", ID: time.Now().String()}
	switch r.Method {
	case "GET":
		req.Operation = logical.ReadOperation
	case "DELETE":
		req.Operation = logical.DeleteOperation
	default:
		req.Operation = logical.UpdateOperation
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 32<<20))
		dec.UseNumber()
		if err := dec.Decode(&req.Data); err != nil && err.Error() != "EOF" {
			fail(w, 400, "failed to parse JSON input: "+err.Error())
			return
		}
		if checked, exists, err := at.engine.HandleExistenceCheck(r.Context(), req); err == nil && checked && !exists {
			req.Operation = logical.CreateOperation
		}
	}
	if !f.allowed(token, "transit/"+path, string(req.Operation)) {
		denied()
		return
	}
	resp, err := at.engine.HandleRequest(r.Context(), req)
	switch {
	case errors.Is(err, logical.ErrUnsupportedPath):
		fail(w, 404)
	case err != nil && (errors.Is(err, logical.ErrInvalidRequest) || resp != nil && resp.IsError()):
		message := err.Error()
		if resp != nil && resp.IsError() {
			message = resp.Error().Error()
		}
		fail(w, 400, message)
	case err != nil:
		fail(w, 500, "1 error occurred:\n\t* "+err.Error())
	case resp == nil && req.Operation == logical.ReadOperation:
		fail(w, 404)
	case resp == nil:
		answer(w, 204, nil)
	case resp.IsError():
		fail(w, 400, resp.Error().Error())
	default:
		answer(w, 200, map[string]any{"request_id": req.ID, "lease_id": "", "renewable": false, "lease_duration": 0, "data": resp.Data, "warnings": resp.Warnings})
	}
}

func main() {
	f := &frame{root: os.Args[2], engines: map[string]*mounted{}, grants: map[string]*grant{}, requests: map[string]int{}, life: time.Hour, renewable: true, policies: map[string]string{}}
	http.HandleFunc("/v1/sys/", f.serveSys)
	http.HandleFunc("/v1/auth/approle/", f.serveAppRole)
	http.HandleFunc("/v1/auth/", f.serveAuth)
	http.HandleFunc("/v1/transit/", f.serveTransit)
	http.HandleFunc("/frame/", f.serveFrame)
	http.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) { fail(w, 404, "no handler for route \""+r.URL.Path+"\"") })
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}

# One command each; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## A cluster, a Service, a pulled cable, told as it happens (KEEP=1 leaves the cluster up)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary demo) && exec e2e/tools/as-root "$$program" $(if $(KEEP),--keep)

.PHONY: test
test: ## Every test, unit to lab, a minute of fuzzing, with one summary
	@e2e/tools/test

.PHONY: test-older
test-older: ## The tests of policies, definitions and manifests, on the Kubernetes before the newest and the oldest supported
	@e2e/tools/test-older

.PHONY: test-random
test-random: ## The random tests with 20,000 cases on three seeds, optimised (CASES=…, SEEDS="1 2 3")
	@e2e/tools/test-random

.PHONY: soak
soak: ## Storms of random edits and faults, for 30 minutes: target/bench/soak.json (SECONDS=…, SEED=…, several as "1 2 3")
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary soak) && exec e2e/tools/as-root "$$program" --seconds $(or $(SECONDS),1800) $(SEED:%=--seed %)

.PHONY: chaos
chaos: ## Each fault alone, then storms of them for 10 minutes, as a client sees it: target/bench/chaos.json (SECONDS=…, SEED=…, several as "1 2 3"; FAULTS="KeysGone …": only these, alone)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary chaos) && exec e2e/tools/as-root "$$program" $(SECONDS:%=--seconds %) $(SEED:%=--seed %) $(FAULTS:%=--fault %)

.PHONY: fuzz
fuzz: ## Made-up input for the parsers and the state machine, for 10 minutes (SECONDS=…)
	@e2e/tools/fuzz $(or $(SECONDS),600)

.PHONY: lint
lint: ## Format, clippy without warnings, generated files up to date
	@e2e/tools/lint

.PHONY: deny
deny: ## Licences and sources of the dependencies, and what is known against them (ADVISORIES=1; installs cargo-deny)
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny@0.20.2
	cargo deny check $(if $(ADVISORIES),,bans licenses sources)

.PHONY: image
image: ## The static binary and its image: target/image/windlass.tar
	@manifests/image/build

.PHONY: release
release: ## Binaries, images and manifests for amd64 and arm64: target/dist (IMAGE=registry.example/windlass)
	@manifests/release/build

.PHONY: crds
crds: ## Generate manifests/crds from the Rust types
	@cargo run --quiet -p windlass-api --example crds

.PHONY: evidence
evidence: ## Generate docs/evidence (the tests that show each rule of docs/dev) and the pages of fields, flags and metrics
	@cargo run --quiet -p windlass --example evidence

.PHONY: bench-failover
bench-failover: ## Windlass, keepalived and FRR side by side: target/bench/failover.json (ROUNDS=10, FALSE_FAILOVERS=600, …)
	@e2e/tools/bench failover

.PHONY: bench-engine
bench-engine: ## What many virtual routers and VIPs cost: target/bench/engine.json
	@e2e/tools/bench engine

.PHONY: bench-tracking
bench-tracking: ## What following, reading and changing the kernel's connection tracking costs, and replicating connections: target/bench/tracking.json (ROUNDS=5 ENTRIES=200000 CONNECTIONS=10000 RATE=20000 SECONDS=5 CASES="table following rest memory rate")
	@e2e/tools/bench tracking

.PHONY: bench-dataplane
bench-dataplane: ## What the guard's table costs each packet that a node forwards, with kube-proxy alone beside it: target/bench/dataplane.json (ROUNDS=5 SECONDS=2 CASES="service-udp-1 pod-tcp-10000 service-udp-1000-sources table" SYSTEMS="kube-proxy guard guard-forwarding guard-replicate sharing")
	@e2e/tools/bench dataplane

.PHONY: bench-bgp
bench-bgp: ## How soon routers of five makers have the routes of the BGP speaker, with FRR's own speaker beside it: target/bench/bgp.json (ROUNDS=5 SIZES=10000 SYSTEMS="windlass frr")
	@e2e/tools/build gobgp >/dev/null
	@e2e/tools/bench bgp

.PHONY: bench-ipam
bench-ipam: ## What giving, releasing and adopting an address costs: target/bench/ipam.json
	@cargo bench --quiet --package windlass-ipam --bench allocator

.PHONY: bench-cluster
bench-cluster: ## keepalived and Windlass through Kubernetes: target/bench/cluster.json
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" cluster

.PHONY: bench-scale
bench-scale: ## Thousands of Services created at once: target/bench/scale.json (SIZES="1000 4000 10000")
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" scale

.PHONY: bench-ccm
bench-ccm: ## What a Service, an idle cluster and a change of a node cost, in time and in calls: target/bench/ccm.json (SERVICES=500 IDLE_SERVICES=10000 NODES=100 SPREAD_SERVICES=1000 SPREAD_NODES=500)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" ccm

.PHONY: bench-footprint
bench-footprint: ## Memory of agent and controller with 1,000 Services, and the size of binary and image: target/bench/footprint.json
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" footprint

.PHONY: bench-spread
bench-spread: ## How evenly addresses are spread over 3, 7 and 50 nodes, and what moves when one leaves: target/bench/spread.json
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" spread

.PHONY: bench-segment
bench-segment: ## A hundred agents on one subnet with 1,000 addresses, at rest and when one and ten die: target/bench/segment.json (NODES=100 SERVICES=1000 INTERVAL_MS=500)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" segment

.PHONY: bench-moves
bench-moves: ## What planned moves cost a client, with keepalived beside Windlass: target/bench/moves.json (CONNECTIONS=200 REQUESTS_PER_SECOND=1000)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" moves

.PHONY: bench-connections
bench-connections: ## Which connections outlive their node, and how long they stall, beside keepalived and conntrackd: target/bench/connections.json (CONNECTIONS=200 ROUNDS=2 SYSTEMS="windlass forward" FAULTS="cable back" FAMILIES=v6 MODES=iptables)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" connections

.PHONY: bench-api-vip
bench-api-vip: ## How long the API server is not answered at its VIP, by windlass vip and by keepalived with a script: target/bench/api-vip.json (ROUNDS=5 NODES=3 SYSTEMS="windlass balanced keepalived" FAULTS="cable hangs")
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" api-vip

.PHONY: bench-bgp-racks
bench-bgp-racks: ## How long requests to API servers in two racks fail whose VIP routers know by BGP, by windlass vip and by FRR: target/bench/bgp.json, beside the rows of bench-bgp (ROUNDS=5 SYSTEMS="windlass frr" CASES="node node-fast node-hold-time rack hangs router upgrade")
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" bgp

.PHONY: bench-distribution
bench-distribution: ## Bandwidth of an address that several nodes serve, what faults cost its connections, and its table in the kernel: target/bench/distribution.json (ROUNDS=2 SECONDS=5 CONNECTIONS=120 SYSTEMS="windlass none keepalived" CASES="download join leave rollout server director spread services" SERVICES=1000)
	@CASES=table e2e/tools/bench dataplane
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" distribution

.PHONY: bench-load
bench-load: ## 10,000 clients while nodes fail, die and are drained one by one, Windlass (as installed, with Forward, with Local Services) and keepalived: target/bench/load.json (CLIENTS=10000, SYSTEMS="windlass forward sharing keepalived", SEED=…)
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary bench) && exec e2e/tools/as-root "$$program" load

.PHONY: lab
lab: ## Only the cluster, until Ctrl-C, with a kubeconfig
	@e2e/tools/prepare
	@program=$$(e2e/tools/binary lab) && exec e2e/tools/as-root "$$program" up

.PHONY: clean
clean: ## Remove target/ (the cache of built tools stays in ~/.cache/windlass)
	cargo clean

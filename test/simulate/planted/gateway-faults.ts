import type { PlantedFault } from './planted-fault.ts'

export const GATEWAY_FAULTS: readonly PlantedFault[] = [
  {
    name: 'memory does not compare the epoch',
    mutations: [
      {
        file: 'keys/tiers/trust.ts',
        from: 'held.epoch === now.epoch && ageMs < lifeMs',
        to: 'ageMs < lifeMs',
      },
    ],
  },
  {
    name: 'the announced version is ignored',
    mutations: [
      {
        file: 'keys/tiers/trust.ts',
        from: 'grant.version < known.version',
        to: 'grant.version < 0',
      },
    ],
  },
  {
    name: 'a disconnected gateway trusts memory as a connected one does',
    mutations: [
      {
        file: 'keys/tiers/trust.ts',
        from: '(now.isConnected || ageMs <= disconnectedLifeMs(held))',
        to: 'true',
      },
    ],
  },
  {
    name: 'a life that slides: each use counts as a verification',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: "=== 'fresh' ? toLookup(held) : null",
        to: "=== 'fresh' ? toLookup(Object.assign(held, { verifiedAtMs: now.nowMs })) : null",
      },
    ],
  },
  {
    name: 'a disconnected gateway asks Redis first',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: 'lookup.began.isConnected ? this.#redisFirst : this.#keyServiceFirst',
        to: 'this.#redisFirst',
      },
    ],
  },
  {
    name: 'a key that no store can vouch for is said not to exist',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: 'if (held === undefined) return UNKNOWN',
        to: "if (held === undefined) return { kind: 'absent', tier: 'memory' }",
      },
    ],
  },
  {
    name: 'a missing record in Redis is taken as proof that there is no key',
    mutations: [
      {
        file: 'keys/tiers/redis-store.ts',
        from: "bytes.length === 0 ? { kind: 'miss' }",
        to: "bytes.length === 0 ? { kind: 'absent' }",
      },
    ],
  },
  {
    name: 'a change evicts no record',
    mutations: [
      {
        file: 'keys/tiers/memory-store.ts',
        from: "if (record.grant.version >= version) return 'current'",
        to: "return 'current'",
      },
    ],
  },
  {
    name: 'a change evicts no entry of a missing key',
    mutations: [
      {
        file: 'keys/tiers/memory-store.ts',
        from: "return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'",
        to: "return 'unknown_key'",
      },
    ],
  },
  {
    name: 'silence is not noticed',
    mutations: [
      {
        file: 'keys/invalidation/invalidation-listener.ts',
        from: 'nowMs - this.#lastHeartbeatMs <= REVOCATION_TIMING.disconnectedAfterMs',
        to: 'this.#lastHeartbeatMs > 0',
      },
    ],
  },
  {
    name: 'a change is confirmed and not applied',
    mutations: [
      {
        file: 'keys/invalidation/invalidation-listener.ts',
        from: 'this.#counts[this.#onChange(digest, version)].inc()',
        to: 'this.#counts.evicted.inc()',
      },
    ],
  },
  {
    name: 'late heartbeats count',
    mutations: [
      {
        file: 'keys/invalidation/heartbeat-senders.ts',
        from: '<= REVOCATION_TIMING.lateAfterMs',
        to: '<= 60_000',
      },
    ],
  },
  {
    name: 'a subscription that Redis has forgotten is not repeated',
    mutations: [
      {
        file: 'keys/invalidation/redis-subscription.ts',
        from: 'else if (nowMs - this.#subscribedAtMs > REPEAT_AFTER_MS) void this.#subscribe()',
        to: '',
      },
    ],
  },
  {
    name: 'records are read from another server than the subscribed one',
    mutations: [
      {
        file: 'keys/redis-access.ts',
        from: 'return isSameServer(this.#reader.server, this.#subscriber.server)',
        to: 'return true',
      },
    ],
  },
  {
    name: 'memory is filled by a lookup that began before a change',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: 'lookup.isSuperseded = true\n    this.#byDigest.delete(digest)',
        to: '',
      },
      {
        file: 'keys/tiers/trust.ts',
        from: 'return isBehind(announced) ||',
        to: 'return',
      },
    ],
  },
  {
    name: 'an old answer of the key service counts',
    mutations: [
      {
        file: 'keys/tiers/trust.ts',
        from: "return now.nowMs - result.askedAtMs < disconnectedBoundMs ? 'fresh' : 'superseded'",
        to: "return 'fresh'",
      },
    ],
  },
  {
    name: 'a new subscription begins no new epoch',
    mutations: [
      {
        file: 'keys/invalidation/redis-subscription.ts',
        from: 'this.#subscription++\n    this.#isSubscribed = false\n    this.#listener.lost()',
        to: '',
      },
      {
        file: 'keys/invalidation/invalidation-listener.ts',
        from: 'this.lost()\n    this.#subscribed = true\n    this.#epoch++',
        to: 'this.#subscribed = true',
      },
    ],
  },
  {
    name: 'an announced version goes back when an older change is repeated',
    mutations: [
      {
        file: 'keys/invalidation/invalidation-listener.ts',
        from: 'known !== undefined && version <= known.version',
        to: 'known !== undefined && version === known.version',
      },
    ],
  },
  {
    name: 'an answer that there is no such key counts behind an announced version',
    mutations: [
      {
        file: 'keys/tiers/trust.ts',
        from: '(grant === null || grant.version < known.version)',
        to: 'grant !== null && grant.version < known.version',
      },
    ],
  },
  {
    name: 'a change does not supersede a lookup in flight',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: 'lookup.isSuperseded = true\n',
        to: '\n',
      },
    ],
  },
  {
    name: 'the life of a stale record counts from its last use',
    mutations: [
      {
        file: 'keys/lookup-chain.ts',
        from: "if (trust === 'stale') this.#lookups.stale.inc()",
        to: "if (trust === 'stale') Object.assign(held, { verifiedAtMs: now.nowMs })",
      },
    ],
  },
]

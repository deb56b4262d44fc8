/** A fault put into the program: one place of one module reads otherwise. */
export interface PlantedFault {
  readonly name: string
  /** Below `src`. */
  readonly file: string
  /** Occurs exactly once. */
  readonly from: string
  readonly to: string
}

export const PLANTED_FAULTS: readonly PlantedFault[] = [
  {
    name: 'memory does not compare the epoch',
    file: 'keys/trust.ts',
    from: 'held.epoch === now.epoch && ageMs < lifeMs',
    to: 'ageMs < lifeMs',
  },
  {
    name: 'the announced version is ignored',
    file: 'keys/trust.ts',
    from: 'grant.version < known.version',
    to: 'grant.version < 0',
  },
  {
    name: 'a disconnected gateway trusts memory as a connected one does',
    file: 'keys/trust.ts',
    from: '(now.isConnected || ageMs <= disconnectedLifeMs(held))',
    to: 'true',
  },
  {
    name: 'a life that slides: each use counts as a verification',
    file: 'keys/lookup-chain.ts',
    from: "=== 'fresh' ? lookupOf(held) : null",
    to: "=== 'fresh' ? lookupOf(Object.assign(held, { verifiedAtMs: now.nowMs })) : null",
  },
  {
    name: 'a record counts as verified when its lookup ends',
    file: 'keys/lookup-chain.ts',
    from: 'verifiedAtMs: began.nowMs',
    to: 'verifiedAtMs: this.#now().nowMs',
  },
  {
    name: 'a disconnected gateway asks Redis first',
    file: 'keys/lookup-chain.ts',
    from: 'lookup.began.isConnected ? this.#redisFirst : this.#keyServiceFirst',
    to: 'this.#redisFirst',
  },
  {
    name: 'a key that no store can vouch for is said not to exist',
    file: 'keys/lookup-chain.ts',
    from: "if (held === undefined || trust === 'expired') return UNKNOWN",
    to: "if (held === undefined || trust === 'expired') return { kind: 'absent', tier: 'memory' }",
  },
  {
    name: 'a missing record in Redis is taken as proof that there is no key',
    file: 'keys/tiers/redis/redis-store.ts',
    from: "bytes.length === 0 ? { kind: 'miss' }",
    to: "bytes.length === 0 ? { kind: 'absent' }",
  },
  {
    name: 'memory is filled by a lookup that began before a change',
    file: 'keys/in-flight-lookups.ts',
    from: 'lookup.isSuperseded = true\n    this.#byDigest.delete(digest)',
    to: '',
  },
  {
    name: 'a change evicts no record',
    file: 'keys/tiers/memory/memory-store.ts',
    from: "if (record.grant.version >= version) return 'current'",
    to: "return 'current'",
  },
  {
    name: 'a change evicts no entry of a missing key',
    file: 'keys/tiers/memory/memory-store.ts',
    from: "return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'",
    to: "return 'unknown_key'",
  },
  {
    name: 'silence is not noticed',
    file: 'keys/invalidation/invalidation-listener.ts',
    from: 'nowMs - this.#lastHeartbeatMs <= REVOCATION_TIMING.disconnectedAfterMs',
    to: 'this.#lastHeartbeatMs > 0',
  },
  {
    name: 'a new subscription counts on heartbeats of the one before',
    file: 'keys/invalidation/invalidation-listener.ts',
    from: 'this.#subscribed = false\n    this.#lastHeartbeatMs = Number.NEGATIVE_INFINITY',
    to: '',
  },
  {
    name: 'a change is confirmed and not applied',
    file: 'keys/invalidation/invalidation-listener.ts',
    from: 'this.#counts[this.#onChange(digest, version)].inc()',
    to: 'this.#counts.evicted.inc()',
  },
  {
    name: 'late heartbeats count',
    file: 'keys/invalidation/heartbeat-senders.ts',
    from: '<= REVOCATION_TIMING.lateAfterMs',
    to: '<= 60_000',
  },
  {
    name: 'a subscription without a reply is left alone',
    file: 'keys/invalidation/redis-subscription.ts',
    from: 'this.#isUnanswered = !isReplyError(error)',
    to: 'this.#isUnanswered = false',
  },
  {
    name: 'a lost connection is not reported',
    file: 'keys/invalidation/redis-subscription.ts',
    from: 'this.#subscription++\n    this.#listener.lost()',
    to: '',
  },
  {
    name: 'records are read from another server than the subscribed one',
    file: 'keys/tiers/redis/redis-access.ts',
    from: 'return isSameServer(this.#reader.server, this.#subscriber.server)',
    to: 'return true',
  },
  {
    name: 'a heartbeat is sent before the outbox is drained',
    file: 'control/registry/announcing/heartbeats.ts',
    from: "if (!isAllAnnounced(pending, clock.wallMs(), allowedMs)) return 'change_undelivered'",
    to: '',
  },
  {
    name: 'a recovered Redis is believed too early',
    file: 'control/registry/announcing/heartbeats.ts',
    from: 'if (!outbox.hasCaughtUp()) {',
    to: 'if (0 > 1) {',
  },
  {
    name: 'what Redis may have lost is not announced again',
    file: 'control/registry/announcing/recovery.ts',
    from: 'await this.#parts.repository.requeueChangesSince(this.#aliveAtMs - AT_RISK_MS)',
    to: '',
  },
  {
    name: 'a change whose record was not written is deleted from the outbox',
    file: 'control/registry/announcing/outbox.ts',
    from: "if (result?.status === 'rejected') throw result.reason",
    to: '',
  },
  {
    name: 'a change that was not announced is deleted from the outbox',
    file: 'control/registry/announcing/outbox.ts',
    from: 'const deletion = announcement\n      .then(',
    to: 'const deletion = announcement\n      .catch(() => {})\n      .then(',
  },
  {
    name: 'an older record overwrites a newer one in Redis',
    file: 'control/registry/announcing/write-record.ts',
    from: 'return !held.ok || held.grant.version <= key.record.version',
    to: 'return true',
  },
  {
    name: 'the console stays at a primary that was replaced',
    file: 'redis/announcing-connection.ts',
    from: 'if (!isSameServer(primary, named())) connection.reconnect()',
    to: '',
  },
]

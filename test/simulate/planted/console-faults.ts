import type { PlantedFault } from './planted-fault.ts'

export const CONSOLE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a heartbeat is sent before the outbox is drained',
    mutations: [
      {
        file: 'console/announcing/heartbeats.ts',
        from: 'const isLate = !isAllAnnounced(pending, clock.wallMs(), allowedMs)',
        to: 'const isLate = false',
      },
    ],
  },
  {
    name: 'a recovered Redis is believed before its lost changes are announced again',
    mutations: [
      {
        file: 'console/announcing/heartbeats.ts',
        from: 'if (outbox.verified !== verified || !outbox.hasCaughtUp()) {',
        to: 'if (false) {',
      },
    ],
  },
  {
    name: 'what Redis may have lost is not announced again',
    mutations: [
      {
        file: 'console/announcing/recovery.ts',
        from: 'await repository.requeueChangesSince(knownUntilMs - AT_RISK_MS)',
        to: '',
      },
    ],
  },
  {
    name: 'a change that was not announced is deleted from the outbox',
    mutations: [
      {
        file: 'console/announcing/outbox.ts',
        from: 'const deletion = announcement\n      .then(',
        to: 'const deletion = announcement\n      .catch(() => {})\n      .then(',
      },
    ],
  },
  {
    name: 'a heartbeat is sent without asking whether the primary was replaced',
    mutations: [
      {
        file: 'console/announcing/heartbeats.ts',
        from: "if (!(await announcer.confirm()) || clock.monotonicMs() - askedAtMs > allowedMs) return 'not_confirmed'",
        to: '',
      },
      {
        file: 'redis/announcing-connection.ts',
        from: '() => void confirm())',
        to: '() => void check.confirm())',
      },
    ],
  },
  {
    name: 'what only a replaced primary has is deleted from the outbox',
    mutations: [
      {
        file: 'console/announcing/outbox.ts',
        from: "if (!(await this.#parts.announcer.confirm())) throw new Error('Redis may have been replaced')",
        to: '',
      },
    ],
  },
  {
    name: 'without a majority of the Sentinels, the server that some name is used',
    mutations: [
      {
        file: 'redis/sentinels.ts',
        from: '// No majority answers.',
        to: 'return true',
      },
    ],
  },
  {
    name: 'what could not be announced is not tried again',
    mutations: [
      {
        file: 'console/announcing/outbox.ts',
        from: 'this.#cancelRetry = timers.after(backoffMs(this.#failures, random()), () => this.requestDrain())',
        to: '',
      },
      {
        file: 'console/announcing/heartbeats.ts',
        from: 'if (pending !== null) outbox.requestDrainOfPending({ isLate })',
        to: '',
      },
    ],
  },
  {
    name: 'only what changed after Redis was last seen is announced again',
    mutations: [
      {
        file: 'console/announcing/recovery.ts',
        from: 'const knownUntilMs = Math.min(this.#knownUntilMs, this.#aliveAtMs)',
        to: 'const knownUntilMs = this.#aliveAtMs + AT_RISK_MS',
      },
    ],
  },
  {
    name: 'an older record overwrites a newer one in Redis',
    mutations: [
      {
        file: 'console/announcing/announcer.ts',
        from: 'return version > record.version || (version === record.version && id !== record.id) ? held.grant : null',
        to: 'return null',
      },
    ],
  },
  {
    name: 'the console stays at a primary that was replaced',
    mutations: [
      {
        file: 'redis/sentinels.ts',
        from: 'if (isSameServer(primary, server)) return true\n      this.#onOther()',
        to: 'return true',
      },
    ],
  },
  {
    name: 'a recovery counts as complete while another console still holds claimed changes',
    mutations: [
      {
        file: 'console/announcing/recovery.ts',
        from: 'if (pending !== null && pending.oldestMs <= this.#requeuedUntilMs) return',
        to: 'if (pending?.oldestMs === Number.NaN) return',
      },
    ],
  },
  {
    name: 'two concurrent changes of one key both commit',
    mutations: [
      {
        file: 'console/keys/rows/commit.ts',
        from: 'if (versions.get(id) !== version - 1) return false',
        to: '',
      },
    ],
  },
  {
    name: 'revoke-all commits without putting its changes into the outbox',
    mutations: [
      {
        file: 'console/keys/rows/bulk-rows.ts',
        from: 'await writeEffects(tx, { pending, events, audit }',
        to: 'await writeEffects(tx, { pending: [], events, audit }',
      },
      {
        file: 'console/keys/bulk-change.ts',
        from: '? inEachRegion(outbox => outbox.announce(keys, pending))',
        to: '? Promise.resolve([])',
      },
    ],
  },
  {
    name: 'a rotation without an overlap does not revoke the old key',
    mutations: [
      {
        file: 'domain/key/key-life.ts',
        from: 'revokedAtMs: overlapEndsMs > nowMs ? null : nowMs,',
        to: '',
      },
    ],
  },
  {
    name: 'an import puts nothing into the outbox',
    mutations: [
      {
        file: 'console/keys/import-export.ts',
        from: 'const announced = await inEachRegion(outbox => outbox.announce(keys, pending))',
        to: 'const announced = await Promise.resolve([])',
      },
      {
        file: 'console/keys/rows/bulk-rows.ts',
        from: 'await writeEffects(tx, { pending, events, audit }',
        to: 'await writeEffects(tx, { pending: [], events, audit }',
      },
    ],
  },
]

import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { ulid } from 'ulid'
import { BLANK_FIELDS } from '../../src/domain/key/key-fields.ts'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { digestKey, importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'

const DAY_MS = 86_400_000
/** Commands in flight to Redis. */
const BATCH = 10_000

export const WORKSPACE = 'ws_1'
export const OTHER_WORKSPACE = 'ws_2'

/** Writes keys to Redis in the console's format, for both gateways under test. */
export class KeyMint {
  readonly #signingKey
  readonly #recordKey
  readonly #redis: Redis
  readonly #nowMs = Date.now()

  constructor(signingSecret: Buffer, redisPort: number) {
    this.#signingKey = importSigningSecret(signingSecret)
    this.#recordKey = deriveRecordKey(signingSecret)
    this.#redis = new Redis({ port: redisPort, host: '127.0.0.1', disableClientInfo: true })
  }

  /** @returns the keys, all of one workspace with both scopes */
  async mint(count: number, plan: string | null = null): Promise<string[]> {
    const keys: string[] = []
    while (keys.length < count) {
      const pipeline = this.#redis.pipeline()
      for (let index = 0; index < BATCH && keys.length < count; index++) {
        const key = mintSecret('wsk_', randomBytes(32), this.#signingKey).reveal()
        const digest = digestKey(key)
        const record = this.#recordOf(key, plan)
        pipeline.set(recordKeyName(digest), encodeRecord(record, digest, this.#recordKey))
        // nginx has no JSON parser without another package. Splitting text in Lua is not what makes it slow.
        const expires = Math.floor(record.expiresAtMs / 1000)
        pipeline.set(`lua:key:${digest}`, `${WORKSPACE} ${record.id} ${expires} ${record.scopes.join(' ')}`)
        keys.push(key)
      }
      const failed = (await pipeline.exec())?.find(([error]) => error !== null)
      if (failed !== undefined) throw new Error(`Redis rejected the keys: ${failed[0]}`)
    }
    return keys
  }

  close(): void {
    this.#redis.disconnect()
  }

  #recordOf(key: string, plan: string | null): KeyRecord {
    return {
      ...BLANK_FIELDS,
      id: `key_${ulid()}`,
      workspaceId: WORKSPACE,
      name: 'bench key',
      scopes: ['files:read', 'workspace:read'],
      hint: `wsk_…${key.slice(-4)}`,
      createdAtMs: this.#nowMs,
      createdBy: 'bench',
      expiresAtMs: this.#nowMs + 90 * DAY_MS,
      revokedAtMs: null,
      suspendedAtMs: null,
      plan,
      rotatedFrom: null,
      replacedBy: null,
      version: 1,
    }
  }
}

/** Replaces the MAC of a well-formed key: the rejection that costs the most without a lookup. */
export function forge(key: string): string {
  return key.slice(0, -1) + (key.endsWith('A') ? 'B' : 'A')
}

/** @returns path of the file, for wrk */
export function writeKeys(file: string, keys: readonly string[]): string {
  writeFileSync(file, `${keys.join('\n')}\n`)
  return file
}

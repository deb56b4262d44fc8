import { randomBytes, randomUUID } from 'node:crypto'
import { ulid } from 'ulid'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { decodeRecord, encodeRecord } from '../../../src/domain/wire.ts'
import { MemoryStore } from '../../../src/keys/tiers/memory-store.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { recordOf } from '../../support/key-records.ts'

/**
 * Run by Node with `--expose-gc`: fills memory and prints the bytes per record.
 * Its argument is the number of records.
 */
const count = Number(process.argv[2])
const KEYS_IN_WORKSPACE = 5

function bytesInUse(): number {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/** Decoded like records from Redis, so that no two share a string. */
function rememberOne(memory: MemoryStore, workspaceId: string): void {
  const digest = digestKey(randomUUID())
  const hint = `wsk_…${randomBytes(2).toString('hex')}`
  const record = recordOf({ id: `key_${ulid()}`, workspaceId, hint })
  const decoded = decodeRecord(encodeRecord(record, digest, null), digest, null)
  if (!decoded.ok) throw new Error(`A record that was just written is ${decoded.why}`)
  memory.remember(digest, decoded.grant, {
    verifiedAtMs: performance.now(),
    epoch: 1,
    keyServiceSkipped: false,
  })
}

const metrics = createMetrics()
const before = bytesInUse()
const memory = new MemoryStore(count, { metrics })
let workspaceId = ''
for (let number = 0; number < count; number++) {
  if (number % KEYS_IN_WORKSPACE === 0) workspaceId = randomUUID()
  rememberOne(memory, workspaceId)
}
process.stdout.write(String((bytesInUse() - before) / count))
// Keeps the memory alive until here.
memory.peek('0'.repeat(64))

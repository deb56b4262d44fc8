import { randomBytes } from 'node:crypto'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'
import { ALL_SCOPES, type World } from '../../support/world.ts'
import { adminCall } from './admin-call.ts'

export interface HeldKey {
  readonly id: string
  readonly secret: string
  readonly workspaceId: string
}

const WORKSPACES = 8
const LIVE = 40
const REVOKED = 200
/** By then every replica must reject a revoked key, even during a fault: one second until it counts as disconnected, then one of stale records. */
export const STALE_SECONDS = 1
const REFUSED_AFTER_MS = 5_000

/** Issues and revokes keys continuously, and tracks the certain state of each. */
export class KeyRing {
  readonly #world: World
  readonly #live: HeldKey[] = []
  readonly #revoked: { key: HeldKey; atMs: number }[] = []
  #revocations = 0

  constructor(world: World) {
    this.#world = world
  }

  get revocations(): number {
    return this.#revocations
  }

  /** Issues a key and, if there are enough, revokes one. After a failed call the state of its key is unknown. */
  async turnOver(): Promise<void> {
    const workspaceId = `ws_soak_${Math.floor(Math.random() * WORKSPACES)}`
    const key = { name: 'soak', scopes: ALL_SCOPES }
    const issued = await adminCall(this.#world, `/workspaces/${workspaceId}/keys`, key)
    if (issued?.status === 201) {
      const { id } = issued.json['key'] as { id: string }
      this.#live.push({ id, secret: String(issued.json['secret']), workspaceId })
    }
    if (this.#live.length <= LIVE) return
    const [doomed] = this.#live.splice(Math.floor(Math.random() * this.#live.length), 1)
    if (doomed === undefined) return
    const revoked = await adminCall(this.#world, `/keys/${doomed.id}/revoke`)
    if (revoked?.status === 200) this.#noteRevoked(doomed)
  }

  anyLive(): HeldKey | undefined {
    return this.#live[Math.floor(Math.random() * this.#live.length)]
  }

  isLive(key: HeldKey): boolean {
    return this.#live.includes(key)
  }

  /** A key that must be rejected by now. */
  anyRevoked(): HeldKey | undefined {
    const longAgo = this.#revoked.filter(({ atMs }) => performance.now() - atMs > REFUSED_AFTER_MS)
    return longAgo[Math.floor(Math.random() * longAgo.length)]?.key
  }

  /** A well-formed, signed key that was never issued. */
  unissued(): string {
    const [secret = ''] = (this.#world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '').split(',')
    return mintSecret('wsk_', randomBytes(32), importSigningSecret(Buffer.from(secret, 'base64'))).reveal()
  }

  forged(): string {
    return mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
  }

  #noteRevoked(key: HeldKey): void {
    this.#revocations++
    this.#revoked.push({ key, atMs: performance.now() })
    if (this.#revoked.length > REVOKED) this.#revoked.shift()
  }
}

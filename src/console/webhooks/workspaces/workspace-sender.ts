import { NO_PROXIES } from '../../../domain/proxy.ts'
import { OutgoingClient } from '../../../outgoing/outgoing-client.ts'
import { ProxyError } from '../../../outgoing/proxy-error.ts'
import { isAccepted, postEvent, type SentEvent } from '../post-event.ts'
import { createGuardedConnector, type Guard } from './guarded-connector.ts'

export type WorkspaceSendResult =
  | { readonly ok: true; readonly status: number }
  /**
   * @property reason for the workspace's people
   * @property cause for the operator's log
   */
  | { readonly ok: false; readonly status: number | null; readonly reason: string; readonly cause: string }

export interface WorkspaceReceiver {
  readonly url: string
  readonly secret: string
}

export interface WorkspaceSender {
  /** Never rejects. */
  send(receiver: WorkspaceReceiver, event: SentEvent, nowMs: number): Promise<WorkspaceSendResult>
}

/** One text for every failure without a status: a different one for each would tell which addresses and ports are in use. */
const NO_RESPONSE = 'No response: the address is unreachable, not allowed or without a valid certificate'

/** Makes a connection for each event: workspaces share none, and each is checked when it is made. */
export function createWorkspaceSender(guard: Guard): WorkspaceSender {
  return {
    async send({ url, secret }, event, nowMs) {
      const signal = AbortSignal.timeout(guard.timeoutMs)
      const client = new OutgoingClient({
        // The guarded connector makes the tunnels: the client itself would send plain http to the proxy, unchecked.
        proxies: NO_PROXIES,
        connector: createGuardedConnector(guard),
        connectTimeoutMs: guard.timeoutMs,
        connections: 1,
      })
      try {
        const status = await postEvent(client, { url: new URL(url), secret }, event, { nowMs, signal })
        if (isAccepted(status)) return { ok: true, status }
        return { ok: false, status, reason: `Response status ${status}`, cause: 'status' }
      } catch (error) {
        return { ok: false, status: null, reason: NO_RESPONSE, cause: causeOf(error) }
      } finally {
        await client.stop()
      }
    },
  }
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if (error.name === 'TimeoutError') return 'timeout'
  if (error instanceof ProxyError) return error.message
  return 'code' in error ? String(error.code) : error.name
}

import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema/schema.ts'
import { readNamedFile } from '../config/setting-files.ts'
import { proxyFor } from '../domain/proxy.ts'
import { ProxyError } from '../outgoing/connect.ts'
import { OutgoingClient } from '../outgoing/outgoing-client.ts'
import { expiryNote, watchCertificates } from './certificates.ts'
import { ANSWER_MS, type Check, CheckFailure, type Passed } from './finding.ts'
import { explainNetworkFailure } from './network-failure.ts'

interface Target {
  readonly check: string
  /** In a sentence: `the collector of traces`. */
  readonly server: string
  /** The setting that leads to it. */
  readonly address: string
  readonly url: string | undefined
  /** The setting for its authority, and the file it names. */
  readonly authority?: string
  readonly caFile?: string | undefined
}

/** What the settings call outside of the installation, through their proxy if there is one. Sign-in has a check of its own. */
export function egressChecks(config: Config, plane: Plane): Check[] {
  return targetsOf(config, plane).flatMap(target =>
    target.url === undefined
      ? []
      : [{ name: target.check, run: () => checkTarget(target, new URL(target.url ?? ''), config.outgoing) }],
  )
}

function targetsOf({ tracing, usage, leaks, console: { webhook } }: Config, plane: Plane): readonly Target[] {
  if (plane === 'gateway') {
    const traces = { check: 'traces', server: 'the collector of traces', address: 'tracing.endpoint' }
    const exported = { check: 'usage export', server: 'the collector of usage', address: 'usage.export.url' }
    return [
      { ...traces, url: tracing.endpoint },
      { ...exported, url: usage.export.url },
    ]
  }
  const { github, enabled } = leaks
  return [
    {
      check: 'webhook',
      server: 'the receiver of events',
      address: 'console.webhook.url',
      url: webhook.url,
      authority: 'console.webhook.caFile',
      caFile: webhook.caFile,
    },
    {
      check: 'leak reports',
      server: 'the server of public keys',
      address: 'leaks.github.keysUrl',
      authority: 'leaks.github.caFile',
      caFile: github.caFile,
      url: enabled && github.keysFile === undefined ? github.keysUrl : undefined,
    },
  ]
}

/** OPTIONS changes nothing (RFC 9110, section 9.2.1), and any response shows that the server is there. */
async function checkTarget(target: Target, url: URL, proxies: Config['outgoing']): Promise<Passed> {
  const { authority = 'NODE_EXTRA_CA_CERTS', caFile } = target
  const ca = caFile === undefined ? undefined : readNamedFile(caFile, authority)
  const client = new OutgoingClient({ proxies, ca, connectTimeoutMs: ANSWER_MS })
  const certificates = watchCertificates()
  try {
    const signal = AbortSignal.timeout(ANSWER_MS)
    const { statusCode, body } = await client.request(url, { method: 'OPTIONS', headers: {}, signal })
    body.on('error', () => {}).destroy()
    const through = proxyFor(url, proxies)
    const way = through === null ? '' : ` through the proxy ${through.url.origin}`
    return {
      found: `${url.host} answers with ${statusCode}${way}${expiryNote(certificates.expiryOf(url))}`,
    }
  } catch (error) {
    // It says what to do.
    if (error instanceof ProxyError) throw new CheckFailure(error.message, null)
    throw explainNetworkFailure(error, url.host, 'connecting', { ...target, authority })
  } finally {
    certificates.stop()
    await client.stop()
  }
}

import { readNamedFile } from '../../config/read-named-file.ts'
import type { OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { type AssertionKey, type PublicAssertionKey, parseAssertionKey } from '../../domain/assertion-key.ts'
import type { Clock } from '../../domain/clock.ts'
import { FailureLog, type Log } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { AssertionSettings } from './assertion-claims.ts'
import { createSigner, type SigningReports } from './assertion-signer.ts'
import { type Assertions, createAssertions } from './assertions.ts'

export interface ConfiguredAssertions extends Assertions {
  /** The keys of all files, so that verifiers know a key before it signs and after it did (RFC 7517, section 5). */
  publicKeys(): { readonly keys: readonly PublicAssertionKey[] }
}

export interface AssertionDeps {
  readonly config: Config
  readonly onReload: OnReload<Config>
  readonly metrics: Pick<Metrics, 'assertions' | 'assertionSigning'>
  readonly logger: Log
  readonly clock: Clock
  /** Unlike `clock.wallMs` it follows a clock that is set back, or verifiers would see assertions from the future. */
  readonly nowMs: () => number
}

interface Keys {
  readonly first: AssertionKey
  readonly publicKeys: readonly PublicAssertionKey[]
}

/** @throws if a file holds no usable key */
export function createConfiguredAssertions(deps: AssertionDeps): ConfiguredAssertions {
  const settings = settingsOf(deps.config)
  const reports = reportsOf(deps)
  const reused = deps.metrics.assertions.handle({ result: 'reused' })
  const signedBy = (key: AssertionKey) =>
    createAssertions({ settings, sign: createSigner(key, reports), reused, nowMs: deps.nowMs })
  let keys = readKeys(deps.config)
  let assertions = signedBy(keys.first)
  deps.onReload(next => {
    const read = readKeys(next)
    return () => {
      const { kid } = read.first.publicKey
      // With the same key, earlier assertions are still used.
      if (kid !== keys.first.publicKey.kid) {
        assertions = signedBy(read.first)
        deps.logger.info({ kid }, 'assertion signing key changed')
      }
      keys = read
    }
  })
  return {
    assertionFor: (grant, target) => assertions.assertionFor(grant, target),
    publicKeys: () => ({ keys: keys.publicKeys }),
  }
}

function settingsOf({ upstream }: Config): AssertionSettings {
  const { issuer, audience, lifetimeSeconds, bind } = upstream.assertion
  if (issuer === undefined || audience === undefined)
    throw new Error('upstream.assertion.issuer and upstream.assertion.audience are required')
  return { issuer, audience, lifetimeSeconds, bind }
}

function readKeys({ upstream }: Config): Keys {
  const keys = upstream.assertion.keyFiles.map((file, index) => {
    const key = parseAssertionKey(readNamedFile(file, `upstream.assertion.keyFiles, at ${index},`))
    if (typeof key !== 'string') return key
    throw new Error(`upstream.assertion.keyFiles, at ${index}: names a file that ${key}`)
  })
  const [first] = keys
  if (first === undefined) throw new Error('upstream.assertion.keyFiles: names no file')
  return { first, publicKeys: keys.map(({ publicKey }) => publicKey) }
}

function reportsOf({ metrics, logger, clock }: AssertionDeps): SigningReports {
  return {
    signed: metrics.assertions.handle({ result: 'signed' }),
    failed: metrics.assertions.handle({ result: 'failed' }),
    seconds: metrics.assertionSigning.handle({}),
    failures: new FailureLog('assertion signing', logger, clock),
    monotonicMs: () => clock.monotonicMs(),
  }
}

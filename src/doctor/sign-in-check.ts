import type { Config } from '../config/schema/schema.ts'
import { createProvider } from '../console/sign-in/provider.ts'
import { systemClock } from '../domain/clock.ts'
import { describeError, SILENT } from '../observability/control-logger.ts'
import { expiryNote, watchCertificates } from './certificates.ts'
import { type Check, CheckFailure, type Passed } from './finding.ts'

/** The OpenID Connect provider, through the proxy of the settings if there is one. */
export function signInChecks({ console: { oidc, publicUrl = '' }, outgoing }: Config): Check[] {
  const { issuer, clientId } = oidc
  if (issuer === undefined || clientId === undefined) return []
  return [{ name: 'sign-in', run: () => checkProvider({ ...oidc, issuer, clientId }, publicUrl, outgoing) }]
}

/** Beginning to sign in reads the provider's metadata, and sends it nothing. */
async function checkProvider(
  settings: Parameters<typeof createProvider>[0],
  publicUrl: string,
  proxies: Config['outgoing'],
): Promise<Passed> {
  const redirectUri = `${publicUrl}/sign-in/callback`
  const provider = createProvider(settings, { redirectUri, clock: systemClock, logger: SILENT, proxies })
  const { host } = new URL(settings.issuer)
  const certificates = watchCertificates()
  try {
    await provider.begin('/')
    const certificate = expiryNote(certificates.expiryOf(new URL(settings.issuer)))
    return { found: `the provider ${host} answers${certificate}` }
  } catch (error) {
    const advice =
      'check console.oidc.issuer and caFile, that this machine reaches the provider, and outgoing.httpsProxy (HTTPS_PROXY) if it needs a proxy'
    throw new CheckFailure(`${host}: ${describeError(error)}`, advice)
  } finally {
    certificates.stop()
    await provider.stop()
  }
}

import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema/schema.ts'
import { checkOwnCertificate } from './certificates.ts'
import { egressChecks } from './egress-check.ts'
import { type Check, compareClocks, type Finding, runCheck } from './finding.ts'
import { keyServiceChecks } from './key-service-check.ts'
import { consoleRedisChecks, gatewayRedisChecks } from './redis-check.ts'
import { upstreamChecks } from './upstream-check.ts'

/**
 * Asks everything outside what a process with these settings needs of it. All checks run at the same time, and none changes
 * anything.
 */
export async function examine(config: Config, planes: readonly Plane[]): Promise<Finding[]> {
  const checks = await Promise.all(planes.map(plane => checksOf(plane, config)))
  const examined = await Promise.all(checks.flat().map(runCheck))
  const clock = compareClocks(examined.flatMap(({ clock }) => clock ?? []))
  return [...examined.map(({ finding }) => finding), ...(clock === null ? [] : [clock])]
}

async function checksOf(plane: Plane, config: Config): Promise<Check[]> {
  if (plane === 'gateway') {
    return [
      ...gatewayRedisChecks(config),
      ...keyServiceChecks(config),
      ...upstreamChecks(config),
      ...egressChecks(config, plane),
      ...certificateCheck('keyService.tls.certFile', config.keyService.tls.certFile),
      ...certificateCheck('upstream.tls.certFile', config.upstream.tls.certFile),
    ]
  }
  // Only a console needs a database and a client of OpenID Connect.
  const [{ databaseChecks }, { signInChecks }] = await Promise.all([
    import('./database-check.ts'),
    import('./sign-in-check.ts'),
  ])
  return [
    ...databaseChecks(config),
    ...consoleRedisChecks(config),
    ...signInChecks(config),
    ...egressChecks(config, plane),
    ...certificateCheck('console.internal.tls.certFile', config.console.internal.tls.certFile),
  ]
}

function certificateCheck(setting: string, file: string | undefined): Check[] {
  if (file === undefined) return []
  return [{ name: 'certificate', run: () => checkOwnCertificate(setting, file) }]
}

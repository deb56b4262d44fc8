import { StartError } from '../domain/errors.ts'
import { requireAuthorities, requirePair } from '../domain/pem.ts'
import { requireReportKeys } from '../domain/report-keys.ts'
import type { ConfigProblem } from './config-error.ts'
import type { Plane } from './rules.ts'
import type { Config, RegionSettings } from './schema/schema.ts'
import { readNamedFile } from './setting-files.ts'
import { valueAt } from './settings.ts'

interface CertificateFile {
  readonly setting: string
  /** The setting of the private key; without one the file holds authorities. */
  readonly keySetting?: string
  /** Without one both planes read it. */
  readonly plane?: Plane
}

const FILES: readonly CertificateFile[] = [
  { setting: 'redis.caFile' },
  { setting: 'upstream.tls.caFile', plane: 'gateway' },
  { setting: 'upstream.tls.certFile', keySetting: 'upstream.tls.keyFile', plane: 'gateway' },
  { setting: 'keyService.tls.caFile', plane: 'gateway' },
  { setting: 'keyService.tls.certFile', keySetting: 'keyService.tls.keyFile', plane: 'gateway' },
  {
    setting: 'console.internal.tls.certFile',
    keySetting: 'console.internal.tls.keyFile',
    plane: 'console',
  },
  { setting: 'console.internal.tls.clientCaFile', plane: 'console' },
  { setting: 'console.oidc.caFile', plane: 'console' },
  { setting: 'console.webhook.caFile', plane: 'console' },
  { setting: 'leaks.github.caFile', plane: 'console' },
]

const REPORT_KEYS = 'leaks.github.keysFile'

/** @returns what a start would say of the certificates and keys that the settings name */
export function findUnusableCertificates(
  config: Config,
  planes: readonly Plane[],
  isValid: (setting: string) => boolean,
): ConfigProblem[] {
  const named = FILES.filter(({ plane }) => plane === undefined || planes.includes(plane))
    .filter(({ setting, keySetting = setting }) => isValid(setting) && isValid(keySetting))
    .flatMap(file => problemsOf(config, file))
  const regions = planes.includes('console') && isValid('regions') ? config.regions : []
  const reportKeys = planes.includes('console') && isValid(REPORT_KEYS) ? problemsOfReportKeys(config) : []
  return [...named, ...reportKeys, ...regions.flatMap(problemsOfRegion)]
}

function problemsOfReportKeys(config: Config): ConfigProblem[] {
  const list = readFile(config, REPORT_KEYS)
  if (list === null) return []
  return typeof list === 'string'
    ? problemIn(REPORT_KEYS, () => requireReportKeys(list, REPORT_KEYS))
    : [list]
}

function problemsOfRegion({ name, redis: { caFile } }: RegionSettings): ConfigProblem[] {
  if (caFile === undefined) return []
  const source = `regions, at ${name}: redis.caFile`
  return problemIn(source, () => requireAuthorities(readNamedFile(caFile, source), source))
}

function problemsOf(config: Config, { setting, keySetting }: CertificateFile): ConfigProblem[] {
  const certificates = readFile(config, setting)
  const key = keySetting === undefined ? null : readFile(config, keySetting)
  const unreadable = [certificates, key].filter(read => read !== null && typeof read !== 'string')
  // A certificate without its key, or the reverse, is a problem of its own.
  if (unreadable.length > 0) return unreadable
  if (typeof certificates !== 'string') return []
  if (keySetting === undefined) return problemIn(setting, () => requireAuthorities(certificates, setting))
  return typeof key === 'string' ? problemIn(setting, () => requirePair(certificates, key, setting)) : []
}

/** @returns its text, what is wrong, or null if the setting names none */
function readFile(config: Config, setting: string): string | ConfigProblem | null {
  const file = valueAt(config, setting)
  if (typeof file !== 'string') return null
  let text = ''
  const [problem] = problemIn(setting, () => {
    text = readNamedFile(file, setting)
  })
  return problem ?? text
}

function problemIn(setting: string, check: () => void): ConfigProblem[] {
  try {
    check()
    return []
  } catch (error) {
    if (!(error instanceof StartError)) throw error
    // The message begins with the name of the setting, which the report says as it was written.
    const problem = error.message.slice(setting.length).replace(/^: /, '').trim()
    return [{ source: setting, problem, path: setting }]
  }
}

import { afterAll, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { makeCertificates } from '../support/certificates.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { SIGNING_SECRET } from './examples.ts'

const [one, other] = [await makeCertificates(), await makeCertificates()]
afterAll(() => {
  for (const certificates of [one, other]) certificates.remove()
})

const ENOUGH = {
  POSTERN_UPSTREAM_URL: 'http://u',
  POSTERN_REDIS_URL: 'rediss://r',
  POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET,
}
const GOOD = {
  POSTERN_REDIS_CA_FILE: one.caFile,
  POSTERN_UPSTREAM_TLS_CERT_FILE: one.clientCertFile,
  POSTERN_UPSTREAM_TLS_KEY_FILE: one.clientKeyFile,
}
const BAD = {
  POSTERN_REDIS_CA_FILE: '/gone/ca.pem',
  POSTERN_UPSTREAM_TLS_CA_FILE: one.clientKeyFile,
  POSTERN_UPSTREAM_TLS_CERT_FILE: one.clientCertFile,
  POSTERN_UPSTREAM_TLS_KEY_FILE: other.clientKeyFile,
  POSTERN_KEY_SERVICE_URL: 'https://console',
  POSTERN_KEY_SERVICE_TOKEN: 'a'.repeat(16),
  POSTERN_KEY_SERVICE_TLS_CERT_FILE: '/gone/cert.pem',
  POSTERN_KEY_SERVICE_TLS_KEY_FILE: '/gone/key.pem',
}

const problemsOf = (environment: Record<string, string>, planes: ('gateway' | 'console')[]) => {
  const loaded = loadConfig({ environment, planes, readsCertificates: true })
  return loaded.ok ? [] : loaded.problems.map(({ source, problem }) => `${source}: ${problem}`)
}
const problemsWith = (more: Record<string, string>, planes: ('gateway' | 'console')[] = ['gateway']) =>
  problemsOf({ ...ENOUGH, ...more }, planes)

test('files that no start could use are named with all other mistakes', () => {
  expect(problemsWith(GOOD)).toEqual([])
  const absent = 'names a file that cannot be read: ENOENT: no such file or directory'
  expect(problemsWith({ ...BAD, POSTERN_LOG_LEVEL: 'loud' }).sort()).toEqual([
    `POSTERN_KEY_SERVICE_TLS_CERT_FILE: ${absent}`,
    `POSTERN_KEY_SERVICE_TLS_KEY_FILE: ${absent}`,
    expect.stringMatching(/^POSTERN_LOG_LEVEL: must be one of/),
    `POSTERN_REDIS_CA_FILE: ${absent}`,
    'POSTERN_UPSTREAM_TLS_CA_FILE: the file contains no PEM certificate',
    'POSTERN_UPSTREAM_TLS_CERT_FILE: the private key does not match the certificate',
  ])
})

test('only files of the planes that run are read, and a lone certificate is one mistake', () => {
  expect(problemsWith(BAD, ['console'])).toEqual([expect.stringMatching(/^POSTERN_REDIS_CA_FILE: /)])
  expect(problemsWith({ POSTERN_UPSTREAM_TLS_CERT_FILE: one.clientCertFile })).toEqual([
    expect.stringMatching(/belong together/),
  ])
})

test('so is the list of keys that sign reports, which only a console reads', () => {
  const named = (file: string) => ({ POSTERN_LEAKS_GITHUB_KEYS_FILE: file })
  expect(problemsWith(named('/gone/keys.json'), ['console'])).toEqual([
    'POSTERN_LEAKS_GITHUB_KEYS_FILE: names a file that cannot be read: ENOENT: no such file or directory',
  ])
  expect(problemsWith(named(one.caFile), ['console'])).toEqual([
    'POSTERN_LEAKS_GITHUB_KEYS_FILE: the list of public keys is not JSON',
  ])
  expect(problemsWith(named('/gone/keys.json'))).toEqual([])
})

test('so are those of regions, which only a console reads', () => {
  const region = (name: string, caFile: string) => ({ name, redis: { url: 'rediss://r', caFile } })
  const regions = [region('eu', one.caFile), region('us', '/gone/ca.pem'), region('ap', one.clientKeyFile)]
  const { POSTERN_REDIS_URL: _, ...environment } = ENOUGH
  expect(problemsOf({ ...environment, POSTERN_REGIONS: JSON.stringify(regions) }, ['console'])).toEqual([
    'regions, at us: redis.caFile: names a file that cannot be read: ENOENT: no such file or directory',
    'regions, at ap: redis.caFile: the file contains no PEM certificate',
  ])
})

test('config check reads them, openapi does not', async () => {
  const environment = { ...ENOUGH, ...BAD }
  const checked = await runPosternHere(['config', 'check'], environment)
  expect([checked.code, checked.stderr]).toEqual([
    78,
    expect.stringContaining('POSTERN_REDIS_CA_FILE: names a file'),
  ])
  expect((await runPosternHere(['openapi'], environment)).code).toBe(0)
})

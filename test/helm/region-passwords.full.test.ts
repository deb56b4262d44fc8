import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MINIMAL, mountedSecrets, render, settingsText } from '../support/chart.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { RedisServer } from '../support/redis-server.ts'
import { CONSOLE_RIGHTS } from '../support/redis-users.ts'
import { scrapeOne } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { HELM, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

/** The console runs on the settings that the chart renders, with Secrets mounted as Kubernetes mounts them. */
const names = ['eu', 'us'] as const
const RELOADED = 'postern_config_last_reload_timestamp_seconds'
const TOKEN = 'a-token-of-more-than-16-characters'

let redis: Readonly<Record<(typeof names)[number], RedisServer>>
let mount: SecretMount
let console_: Listening

const setPassword = (server: RedisServer, password: string) =>
  server.addUser('console', 'reset', 'on', `>${password}`, ...CONSOLE_RIGHTS.standalone)

beforeAll(async () => {
  if (!has(HELM)) return
  redis = { eu: await RedisServer.start(), us: await RedisServer.start() }
  for (const name of names) await setPassword(redis[name], `first-${name}`)
  const rendering = render({
    image: MINIMAL.image,
    config: {
      reload: { everySeconds: 0.1 },
      regions: names.map(name => ({ name, redis: { url: redis[name].url, username: 'console' } })),
    },
    secrets: {
      regions: Object.fromEntries(
        names.map(name => [name, { redis: { password: { existingSecret: `redis-${name}` } } }]),
      ),
    },
    gateway: { enabled: false },
    console: { enabled: true },
  })
  const contents: Readonly<Record<string, string>> = {
    'keys.signingSecrets': SIGNING_SECRET.toString('base64'),
    'regions.eu.redis.password': 'first-eu',
    'regions.us.redis.password': 'first-us',
  }
  const files = Object.keys(mountedSecrets(rendering, 'console'))
  mount = new SecretMount(Object.fromEntries(files.map(file => [file, contents[file] ?? TOKEN])))
  const settings = join(mount.directory, 'postern.yaml')
  const text = settingsText(rendering, 'console')
  writeFileSync(settings, text.replaceAll('/etc/postern/secrets', mount.directory))
  console_ = await startPostern('console', {
    POSTERN_CONFIG: settings,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
})
afterAll(async () => {
  if (!has(HELM)) return
  await console_.process.stop()
  for (const name of names) await redis[name].stop()
  mount.remove()
})

/** Redis lists a connection under its user once the password was right. */
const isLoggedIn = (server: RedisServer) =>
  until('the console is logged in', async () =>
    String(await server.admin.call('CLIENT', 'LIST')).includes('user=console'),
  )

describe.skipIf(!has(HELM))('the passwords of regions, mounted by the chart', () => {
  test('one changes while the console runs, and connections to both regions go on', async () => {
    for (const name of names) await isLoggedIn(redis[name])
    const before = await scrapeOne(console_.urls.ops, RELOADED)
    mount.swap({ 'regions.us.redis.password': 'second-us' })
    await until('the file is read', async () => (await scrapeOne(console_.urls.ops, RELOADED)) > before)
    await setPassword(redis.us, 'second-us')
    for (const name of names) {
      await redis[name].admin.call('CLIENT', 'KILL', 'USER', 'console')
      await isLoggedIn(redis[name])
    }
    expect(JSON.stringify(await redis.us.admin.call('ACL', 'LOG'))).not.toContain('"auth"')
  })
})

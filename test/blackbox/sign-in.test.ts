import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { BrowserDouble } from '../support/browser-double.ts'
import { freePort } from '../support/free-port.ts'
import { CLIENT_ID, CLIENT_SECRET } from '../support/identity-provider.ts'
import { startPostern } from '../support/postern-process.ts'
import { signIn, startProvider } from '../support/signed-in.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const KEYS = '/workspaces/ws_1/keys'

test('users stay signed in while the console is replaced, and no log contains their credentials', async () => {
  const directory = temporaryDirectory()
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const provider = await startProvider({ redirectUri: `${origin}/sign-in/callback` })
  const secretFile = join(directory, 'client-secret')
  writeFileSync(secretFile, `${CLIENT_SECRET}\n`)
  const env = {
    POSTERN_CONSOLE_HOST: '127.0.0.1',
    POSTERN_CONSOLE_PORT: String(port),
    POSTERN_OPS_PORT: '0',
    POSTERN_CONSOLE_PUBLIC_URL: origin,
    POSTERN_CONSOLE_OIDC_ISSUER: provider.issuer,
    POSTERN_CONSOLE_OIDC_CLIENT_ID: CLIENT_ID,
    POSTERN_CONSOLE_OIDC_CLIENT_SECRET_FILE: secretFile,
    POSTERN_DATABASE_URL: `sqlite:${join(directory, 'postern.db')}`,
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_DRAIN_DELAY_MS: '0',
    POSTERN_LOG_LEVEL: 'debug',
  }
  const first = await startPostern('console', env)
  onTestFinished(() => void first.process.stop())
  const ada = await signIn(new BrowserDouble(origin), provider, { sub: 'ada', workspaces: ['ws_1'] })
  const cookie = ada.browser.cookie('postern-session')
  expect(cookie?.attributes).toBe('Max-Age=43200; Path=/; HttpOnly; SameSite=Lax')
  expect((await ada.call('POST', KEYS, { name: 'k', scopes: ['files:read'] })).status).toBe(201)
  const metrics = await (await fetch(`${first.urls.ops}/metrics`)).text()
  expect(metrics).toContain('postern_login_total{outcome="ok"} 1')
  const { stdout } = await first.process.stop('SIGTERM')

  const second = await startPostern('console', env)
  onTestFinished(() => void second.process.stop())
  expect((await ada.call('GET', KEYS)).body.keys).toMatchObject([{ createdBy: 'person:ada' }])

  for (const secret of [cookie?.value, ada.csrf, CLIENT_SECRET]) expect(stdout).not.toContain(secret)
  expect(stdout).not.toMatch(/code=|state=|postern-session=/)
  expect(stdout).toContain('person signed in')
})

import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const PEOPLE = '/people'

test('people are listed fifty at a time', async () => {
  const world = await startSignIn({
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'admin' } },
  })
  const root = await world.signedIn({ sub: 'root', name: 'Root', roles: ['admin'] })
  for (let number = 10; number < 61; number++)
    await world.signedIn({ sub: `a${number}`, workspaces: ['ws_1'] })
  const first = (await root.browser.visit(PEOPLE)).text
  expect(first.match(/<th scope="row">/g)).toHaveLength(50)
  expect(first).toContain('More people')
  const last = (await root.browser.visit(`${PEOPLE}?cursor=a59`)).text
  expect(last.match(/<th scope="row">/g)).toHaveLength(2)
})

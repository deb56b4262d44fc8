import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { GoProgram } from '../support/go-module-program.ts'

/** Three minutes of processor time. */
export const OPENTOFU: GoProgram = {
  name: 'tofu',
  module: 'github.com/opentofu/opentofu@v1.12.6',
  folder: './cmd/tofu',
}

/**
 * The controller of External Secrets, with all its controllers, and of its generators and providers the generator `Webhook`: that
 * leaves out the clients of all clouds, and takes a minute and a half of processor time. It is the newest version whose Go module holds the controller
 * as a whole; the generator and its fields are the same in 1.3.2.
 */
export const EXTERNAL_SECRETS: GoProgram = {
  name: 'external-secrets',
  module: 'github.com/external-secrets/external-secrets@v0.16.2',
  folder: '.',
  prepare(source) {
    const registered = {
      'pkg/provider/register': '',
      'pkg/generator/register':
        'import _ "github.com/external-secrets/external-secrets/pkg/generator/webhook"\n',
    }
    for (const [folder, imports] of Object.entries(registered)) {
      for (const file of readdirSync(join(source, folder))) rmSync(join(source, folder, file))
      writeFileSync(join(source, folder, 'register.go'), `package register\n\n${imports}`)
    }
  },
}

/** Pages whose blocks test/docs/commands.full.test.ts runs, in this order, against one installation. */
export const INSTALLATION_PAGES = [
  'docs/operate/install.md',
  'docs/cli.md',
  'docs/integrators.md',
  'docs/admin-api.md',
  'docs/operate/audit.md',
  'docs/operate/troubleshooting.md',
  'docs/operate/rotate-secrets.md',
  'docs/migrate.md',
  'docs/operate/leaks.md',
  'docs/operate/backup.md',
] as const

/** Pages whose blocks are run by quickstart.full.test.ts beside this file, or by test/byo/page.test.ts. */
export const OTHER_TESTED_PAGES = ['README.md', 'docs/quickstart.md', 'docs/bring-your-own-keys.md'] as const

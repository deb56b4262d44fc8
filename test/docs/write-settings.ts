import { readFileSync, writeFileSync } from 'node:fs'
import { SETTINGS_PAGE, withCurrentSettings } from './settings-section.ts'

writeFileSync(SETTINGS_PAGE, withCurrentSettings(readFileSync(SETTINGS_PAGE, 'utf8')))

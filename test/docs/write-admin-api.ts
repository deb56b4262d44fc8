import { writeFileSync } from 'node:fs'
import { ADMIN_API_DOCUMENT, currentAdminApiDocument } from './admin-api-document.ts'

writeFileSync(ADMIN_API_DOCUMENT, currentAdminApiDocument())

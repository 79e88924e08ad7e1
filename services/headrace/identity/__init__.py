"""Who is asking, and may they: bearer tokens become callers, and one table says what each role may do.

The question it answers: *who shows this token, and what may they do here, now?*

- `caller` is the answer: role, tenant, handle, groups. `roles` is the table of method x role x own or other tenant.
- `verifier` checks a token from its first byte on: `jwt_checks` its form, signature, issuer, audience and times, with the keys of the
  embedded issuer (`signing`) or those an OpenID provider publishes (`jwks`); `providers` reads which providers there are.
- `directory` asks the fold what the bearer is today: revoked, known, member of which groups, administrator of which tenant. What
  stands in a token is no more than whom it speaks for, so that what is written or revoked holds at once, for tokens already given.

Facts read, through the fold: `token.*`, and what administrators wrote of tenants, users and groups. Facts written: none; *governance*
states who is given a token, and whose is revoked.

It never lets anybody in whom it cannot check: a provider that is away, a key that is not known, a claim that is missing are a no.
"""

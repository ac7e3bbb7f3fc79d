#!/usr/bin/env bash
# Run once by the image of PostgreSQL, when its data folder is new: makes the roles with the passwords that are in files.
set -euo pipefail
OWNER_PASSWORD=$(cat /run/secrets/owner_password)
LOGIN_PASSWORD=$(cat /run/secrets/login_password)
export OWNER_PASSWORD LOGIN_PASSWORD
psql --no-psqlrc --username "$POSTGRES_USER" --dbname postgres --file /usr/share/hapax/roles.sql

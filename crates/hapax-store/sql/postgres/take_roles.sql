-- Lets this login take our roles.
GRANT hapax_app, hapax_janitor TO CURRENT_USER;
